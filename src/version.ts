// The version of this package, read once from its package.json.
import { readFileSync } from 'node:fs'

const parsed: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

export const version: string =
  typeof parsed === 'object' && parsed !== null && 'version' in parsed ? String(parsed.version) : 'unknown'
