// The certificates of the tests, made by make.sh.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export type Name = 'server' | 'renewed' | 'expired'
export const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
export const pairOf = (name: Name): { readonly cert: string; readonly key: string } => ({
  cert: pathOf(`${name}.pem`),
  key: pathOf(`${name}.key`),
})
/** What a client trusts. */
export const ca = readFileSync(pathOf('ca.pem'), 'utf8')
