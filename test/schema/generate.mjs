// Makes wire.json, the schemas of every event and body, from the types of the openai package in the root's node_modules.
// Run it after that package's version changes: npm --prefix test/schema ci && npm --prefix test/schema run generate
// With --check it writes nothing and fails where the file is another.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createGenerator } from 'ts-json-schema-generator'

const here = (name) => fileURLToPath(new URL(name, import.meta.url))
const openai = JSON.parse(readFileSync(here('../../node_modules/openai/package.json'), 'utf8'))

const schema = createGenerator({
  path: here('wire-types.ts'),
  tsconfig: here('tsconfig.json'),
  type: 'Wire',
  expose: 'all',
  topRef: true,
  jsDoc: 'none',
  sortProps: true,
  skipTypeCheck: true,
  additionalProperties: false,
}).createSchema('Wire')

const definitions = Object.fromEntries(Object.entries(schema.definitions).sort(([a], [b]) => (a < b ? -1 : 1)))
const events = definitions.ResponseStreamEvent.anyOf.length
const made = `${JSON.stringify({ $comment: `Generated from openai ${openai.version} by generate.mjs; do not edit.`, openai: openai.version, definitions }, null, 1)}\n`
if (!process.argv.includes('--check')) writeFileSync(here('wire.json'), made)
else if (readFileSync(here('wire.json'), 'utf8') !== made) {
  process.stderr.write('wire.json is not what the types give: run `npm --prefix test/schema run generate`\n')
  process.exit(1)
}
process.stdout.write(
  `wire.json: openai ${openai.version}, ${Object.keys(definitions).length} definitions, ${events} stream events\n`,
)
