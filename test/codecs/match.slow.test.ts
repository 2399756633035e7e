import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { mismatch } from '../../src/codecs/match.ts'
import { rows } from './families.ts'
import { goldens } from './goldens.ts'
const folders = process.env['TEMPLATES']?.split(':') ?? []
for (const { golden, family } of rows) test(golden, () => {
  const { template, variables } = goldens(golden)
  const path = folders.map((f) => join(f, template.file)).find((f) => existsSync(f))
  if (!path) return
  const raw = readFileSync(path, 'utf8')
  const source = path.endsWith('.json') ? JSON.parse(raw).chat_template : raw
  console.log(golden, mismatch(source, family) ?? 'OK')
})
import { readdirSync } from 'node:fs'
import { familyOf } from '../../src/codecs/detect.ts'
test('alike', () => {
  const own = new Set(rows.map(({ golden }) => goldens(golden).template.file))
  for (const file of readdirSync(folders[0] ?? '.')) {
    if (own.has(file) || !file.endsWith('.jinja')) continue
    const source = readFileSync(join(folders[0] ?? '', file), 'utf8')
    const proposed = familyOf(source)
    const row = rows.find(({ family }) => family.name === proposed)
    try { console.log(file, proposed ?? '-', row ? (mismatch(source, row.family) ?? 'OK') : '') } catch (e) { console.log(file, String(e)) }
  }
})
