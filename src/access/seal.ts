// Seals what clients carry for us, reasoning and summaries: AES-256-GCM, bound to tenant and kind. Owns the key file.
// A token is `ctn1.KEYID.BASE64URL(nonce 12 | tag 16 | sealed)`; sealed is one byte (0 plain, 1 zlib) and the text.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, open, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { constants, deflateSync, inflateSync } from 'node:zlib'
import { ApiError } from '../protocol/errors.ts'
import type { Seal } from '../turn/ports.ts'

const prefix = 'ctn1.'
const nonceBytes = 12
const tagBytes = 16
/** Bytes of text that a token may hold, and that opening one may produce. */
const maxText = 16 * 1024 * 1024
/** Longest token that can hold so much: base64 of it all, and room for the key id. */
const maxToken = Math.ceil(((maxText + 1024) * 4) / 3)
const deflateFrom = 1024
const maxKeys = 64

type Kind = 'reasoning' | 'compaction'
type Key = { readonly id: string; readonly secret: Buffer }

/**
 * The seal of this server. `keyFile` has a key a line, newest first: `ID BASE64` of 32 bytes; the first seals, all open.
 * It is made on first use, readable for its owner only. Throws with a sentence that says what to do.
 */
export async function openSeal({ keyFile }: { readonly keyFile: string }): Promise<Seal> {
  const path = resolve(keyFile)
  const text = (await read(path)) ?? (await create(path))
  return sealWith(parseKeys(text, path))
}

/** A seal whose key is gone when the process ends. */
export function memorySeal(): Seal {
  return sealWith([newKey()])
}

function sealWith(keys: readonly [Key, ...Key[]]): Seal {
  const [newest] = keys
  const byId = new Map(keys.map((key) => [key.id, key]))
  return {
    seal(text, tenant, kind) {
      const plain = Buffer.from(text, 'utf8')
      if (plain.length > maxText)
        throw new ApiError('server_error', `A ${kind} item is over ${maxText} bytes and cannot be sealed.`)
      const packed = plain.length > deflateFrom
      const body = packed ? deflateSync(plain, { level: constants.Z_BEST_SPEED }) : plain
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', newest.secret, nonce, { authTagLength: tagBytes })
      cipher.setAAD(boundTo(newest.id, tenant, kind))
      const sealed = [cipher.update(Buffer.of(packed ? 1 : 0)), cipher.update(body), cipher.final()]
      return `${prefix}${newest.id}.${Buffer.concat([nonce, cipher.getAuthTag(), ...sealed]).toString('base64url')}`
    },
    open(token, tenant, kind) {
      if (!token.startsWith(prefix)) return undefined
      try {
        return unseal(token, byId, tenant, kind)
      } catch (cause) {
        // One message whatever was wrong: it must not help to find out which part of a token is right.
        throw Object.assign(new ApiError('invalid_encrypted_content'), { cause })
      }
    },
  }
}

function unseal(token: string, keys: ReadonlyMap<string, Key>, tenant: string, kind: Kind): string {
  if (token.length > maxToken) throw new Error('too long')
  const dot = token.indexOf('.', prefix.length)
  const key = keys.get(token.slice(prefix.length, dot))
  if (dot < 0 || !key) throw new Error('unknown key')
  const text = token.slice(dot + 1)
  const bytes = Buffer.from(text, 'base64url')
  // The decoder skips what is no base64 and ignores spare bits: only the one canonical spelling is ours.
  if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== text) throw new Error('malformed')
  const decipher = createDecipheriv('aes-256-gcm', key.secret, bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  })
  decipher.setAAD(boundTo(key.id, tenant, kind))
  decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  const plain = Buffer.concat([decipher.update(bytes.subarray(nonceBytes + tagBytes)), decipher.final()])
  const body = plain.subarray(1)
  if (plain[0] === 0 && body.length <= maxText) return body.toString('utf8')
  if (plain[0] === 1) return inflateSync(body, { maxOutputLength: maxText }).toString('utf8')
  throw new Error('unknown packing')
}

/** What a token is bound to besides its key. Lengths stand in front, so that no two bindings spell the same bytes. */
function boundTo(keyId: string, tenant: string, kind: Kind): Buffer {
  const parts = [prefix, keyId, tenant, kind].map((part) => Buffer.from(part, 'utf8'))
  return Buffer.concat(parts.flatMap((part) => [lengthOf(part), part]))
}
function lengthOf(part: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(part.length)
  return length
}

function newKey(): Key {
  return { id: randomBytes(6).toString('hex'), secret: randomBytes(32) }
}

function parseKeys(text: string, path: string): [Key, ...Key[]] {
  const keys: Key[] = []
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const [, id, base64] = /^([A-Za-z0-9_-]{1,32}) +([A-Za-z0-9+/]{43}=)\s*$/.exec(line) ?? []
    if (id === undefined || base64 === undefined || keys.some((key) => key.id === id))
      throw new Error(
        `Line ${at + 1} of the key file ${path} is no key of its own: each is an id, a space and 32 bytes in base64. ` +
          'Restore the file from a backup. If it is removed, a new key is made and what was sealed before cannot be opened.',
      )
    keys.push({ id, secret: Buffer.from(base64, 'base64') })
  }
  const [newest, ...older] = keys
  if (!newest || keys.length > maxKeys)
    throw new Error(
      `The key file ${path} must have 1 to ${maxKeys} keys, it has ${keys.length}. Restore it from a backup.`,
    )
  return [newest, ...older]
}

/** Undefined where there is no file yet. */
async function read(path: string): Promise<string | undefined> {
  let text
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw trouble(path, 'read', error)
  }
  // A copied file may have lost its mode. Where it is not ours to change (a mounted secret) it stays as it is.
  await chmod(path, 0o600).catch(() => undefined)
  return text
}

/** Whole or not at all, and if another process was first, its key counts. */
async function create(path: string): Promise<string> {
  const key = newKey()
  const text = `# Continuo seals reasoning and summaries with the first of these keys. Newest first.\n${key.id} ${key.secret.toString('base64')}\n`
  const draft = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await durable(draft, text)
    // A link fails where the name is taken; a rename would replace the other process's key.
    await link(draft, path).catch(async (error: unknown) => {
      if (codeOf(error) === 'EEXIST') return
      // Some file systems have no links. What remains is a moment in which the file is not whole.
      await writeFile(path, text, { mode: 0o600, flag: 'wx' }).catch((e: unknown) => {
        if (codeOf(e) !== 'EEXIST') throw e
      })
    })
  } catch (error) {
    throw trouble(path, 'made', error)
  } finally {
    await rm(draft, { force: true }).catch(() => undefined)
  }
  const made = await read(path)
  if (made === undefined) throw trouble(path, 'read', new Error('it vanished'))
  return made
}
async function durable(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
function trouble(path: string, what: 'read' | 'made', cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new Error(
    `The key file ${path} could not be ${what} (${why}). ` +
      'Let the user that runs the server read and write its folder, or point the data folder elsewhere.',
    { cause },
  )
}
