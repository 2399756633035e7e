// `continuo explain`: where two prompts part, so that an engine computes everything again. Reads two requests, or a stored
// response and the one in front of it; changes nothing.
import { createReadStream } from 'node:fs'
import { Option, type Command } from 'commander'
import { ConfigError, loadConfig, type Loaded } from '../config.ts'
import type { Given } from '../explain-sides.ts'
import { parseObject } from '../protocol/json.ts'
import type { WriterOptions } from '../registry.ts'
import { configOptions, flagsOf, type ConfigOptions } from './options.ts'
import type { About } from './explain-text.ts'

type Options = ConfigOptions & {
  readonly model?: string
  readonly codec?: string
  readonly tokenizer?: string
  readonly template?: string
  readonly retention?: 'auto' | 'all' | 'tool_cycle'
  readonly json?: boolean
}

const help = `
A request is a file with the JSON of a POST /v1/responses body or of a response.create frame; - reads it from stdin.
A response id (resp_…) stands for the request that made it, read from the configured store; alone it is compared with the
response in front of it in its conversation. An engine is asked for its tokenizer at most; nothing is written.

Examples:
  continuo explain first.json second.json
  continuo explain first.json - --json < second.json
  continuo explain resp_0123 -c team.yaml                      a stored response against the one it follows
  continuo explain a.json b.json --codec qwen3 --tokenizer Qwen/Qwen3-8B       no engine, no configuration needed
  continuo explain a.json b.json --retention all               what another retention would change

Items are counted from 0, as in the log's lines "prefix broken". docs/explain.md explains each reason.
Exit code 0: it was explained, whatever came out; 1: it could not be.
`

/** Registers the command. */
export function explainCommand(program: Command): void {
  configOptions(program.command('explain'))
    .description('say where two requests part, so that the engine computes the prompt again, why, and what to do')
    .argument('<request...>', 'two request files, or the id of a stored response')
    .option('--model <name>', 'compare as requests for this model')
    .option('--codec <name>', 'chat format to write the prompts in (docs/engines.md)')
    .option('--tokenizer <path>', "tokenizer.json, a model's folder, or its name on the hub")
    .option('--template <path>', 'a Jinja file, for the codec `jinja`, or to tell the chat format by')
    .addOption(new Option('--retention <kind>', 'what becomes of old reasoning').choices(['auto', 'all', 'tool_cycle']))
    .option('--json', 'print one JSON object')
    .addHelpText('after', help)
    .action(async (requests: string[], options: Options) => {
      process.exitCode = await explainThem(requests, options)
    })
}

/** Prints the explanation and returns the exit code. */
async function explainThem(names: readonly string[], options: Options): Promise<number> {
  process.stdout.on('error', () => {})
  let loaded: Loaded | undefined
  try {
    loaded = loadConfig({ flags: flagsOf(options) })
    process.stdout.write(await explained(names, options, loaded))
    return 0
  } catch (e) {
    const error = e instanceof ConfigError && loaded ? loaded.locate(e) : e
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  }
}

async function explained(names: readonly string[], options: Options, { config }: Loaded): Promise<string> {
  if (names.length > 2) throw new Error('Give two requests, or the id of one response; these are more.')
  if (names.length === 2 && names[0] === '-' && names[1] === '-')
    throw new Error('Only one of the two requests can come from stdin; put the other into a file.')
  const given: Given[] = []
  for (const name of names) given.push(await read(name, config.limits.http.maxBodyBytes))

  const { readSides } = await import('../explain-sides.ts')
  const { first, second, sealed } = await readSides(config, given)
  const as = options.model
  const [one, two] = [first, second].map((side) =>
    as === undefined ? side : { ...side, settings: { ...side.settings, model: as } },
  )
  if (!one || !two) throw new Error('Give two requests, or the id of a response.')
  const { createWriter } = await import('../registry.ts')
  const { model } = two.settings
  const { codec, engine } = await createWriter(config, model, chosen(options), { note: () => {} })
  const { explain } = await import('../explain.ts')
  const explanation = await explain(one, two, codec)
  const notes = [
    ...(codec
      ? []
      : [
          `the engine ${JSON.stringify(engine)} is sent items and writes the prompt itself, so items and settings are compared and tokens estimated; --codec NAME --tokenizer PATH compares tokens`,
        ]),
    ...(sealed > 0
      ? [
          `${sealed} sealed ${sealed === 1 ? 'item' : 'items'} could not be opened with the key file of this data folder, and ${sealed === 1 ? 'counts' : 'count'} as empty`,
        ]
      : []),
  ]
  const written = codec?.id.split('/').slice(0, 2).join('/')
  const about: About = { model, codec: written, engine, names: [one.name, two.name], notes }
  const { asJson, asText } = await import('./explain-text.ts')
  return options.json ? `${asJson(explanation, about)}\n` : asText(explanation, about, colours())
}
const colours = (): boolean => process.stdout.isTTY === true && !process.env['NO_COLOR']

function chosen({ codec, tokenizer, template, retention }: Options): WriterOptions {
  return {
    ...(codec === undefined ? {} : { codec }),
    ...(tokenizer === undefined ? {} : { tokenizer }),
    ...(template === undefined ? {} : { template }),
    ...(retention === undefined ? {} : { retention }),
  }
}

async function read(name: string, limit: number): Promise<Given> {
  if (/^resp_[A-Za-z0-9_-]+$/.test(name)) return { name, response: name }
  const shown = name === '-' ? 'stdin' : name
  const bytes = await all(name === '-' ? process.stdin : createReadStream(name), shown, limit)
  try {
    return { name: shown, body: parseObject(bytes) }
  } catch (e) {
    throw new Error(`${shown}: ${e instanceof Error ? e.message : String(e)}`, { cause: e })
  }
}
async function all(from: AsyncIterable<unknown>, name: string, limit: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  try {
    for await (const part of from) {
      if (!Buffer.isBuffer(part)) continue
      size += part.length
      if (size > limit) break
      parts.push(part)
    }
  } catch (e) {
    throw new Error(
      `${name} cannot be read (${e instanceof Error ? e.message : String(e)}); give two files with request bodies, or a response id (resp_…).`,
      { cause: e },
    )
  }
  if (size > limit)
    throw new Error(`${name} is over ${limit} bytes (limits.http.maxBodyBytes), more than a request may be.`)
  return Buffer.concat(parts)
}
