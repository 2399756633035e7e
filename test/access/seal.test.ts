// Sealed content: what was sealed comes back, to its tenant and as its kind only, and nothing that was changed opens.
import { createCipheriv, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deflateSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { memorySeal, openSeal } from '../../src/access/seal.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-seal-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0
const fresh = () => join(folder, `s${++files}`, 'data', 'seal.key')
const refused = expect.objectContaining({
  code: 'invalid_encrypted_content',
  message: 'Sealed content was changed, or was sealed for another tenant or another key file.',
})
const thrown = (work: () => unknown): unknown => {
  try {
    return { returned: work() }
  } catch (error) {
    return error
  }
}
const kinds = fc.constantFrom('reasoning' as const, 'compaction' as const)
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme', minLength: 900, maxLength: 3000 }))

test('any text comes back for the tenant and kind it was sealed for', () => {
  const seal = memorySeal()
  fc.assert(
    fc.property(text, fc.string(), kinds, (plain, tenant, kind) => {
      const token = seal.seal(plain, tenant, kind)
      expect(token).toMatch(/^ctn1\.[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+$/)
      expect(seal.open(token, tenant, kind)).toBe(plain)
    }),
  )
})
test('another tenant, another kind and another key are refused alike', () => {
  const seal = memorySeal()
  const token = seal.seal('thoughts', 'red', 'reasoning')
  expect(thrown(() => seal.open(token, 'blue', 'reasoning'))).toEqual(refused)
  expect(thrown(() => seal.open(token, 'red', 'compaction'))).toEqual(refused)
  expect(thrown(() => seal.open(token, '', 'reasoning'))).toEqual(refused)
  expect(thrown(() => memorySeal().open(token, 'red', 'reasoning'))).toEqual(refused)
})
test('tenant and kind are told apart though they spell the same when joined', () => {
  const seal = memorySeal()
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      fc.pre(a !== b)
      const token = seal.seal('x', a, 'reasoning')
      expect(thrown(() => seal.open(token, b, 'reasoning'))).toEqual(refused)
    }),
  )
})
test('no token opens with any single bit changed', () => {
  const seal = memorySeal()
  const token = seal.seal('short', 'red', 'reasoning')
  for (let at = 0; at < token.length; at++)
    for (let bit = 0; bit < 8; bit++) {
      const changed = token.slice(0, at) + String.fromCharCode(token.charCodeAt(at) ^ (1 << bit)) + token.slice(at + 1)
      const result = thrown(() => seal.open(changed, 'red', 'reasoning'))
      // In the mark that makes it ours a change makes it somebody else's; anywhere else it is a forgery.
      if (at < 'ctn1.'.length) expect(result, changed).toEqual({ returned: undefined })
      else expect(result, changed).toEqual(refused)
    }
})
test('no token opens cut short, grown, respelled or without its parts', () => {
  const seal = memorySeal()
  const token = seal.seal('short', 'red', 'reasoning')
  const [mark = '', key = '', body = ''] = token.split('.')
  for (let n = 'ctn1.'.length; n < token.length; n++)
    expect(
      thrown(() => seal.open(token.slice(0, n), 'red', 'reasoning')),
      String(n),
    ).toEqual(refused)
  for (const changed of [`${token}A`, `${token}=`, `${token} `, `${token}.`, `ctn1.`, `ctn1..${body}`, `ctn1.${body}`])
    expect(
      thrown(() => seal.open(changed, 'red', 'reasoning')),
      changed,
    ).toEqual(refused)
  const standard = Buffer.from(body, 'base64url').toString('base64')
  expect(thrown(() => seal.open(`${mark}.${key}.${standard}=`, 'red', 'reasoning'))).toEqual(refused)
})
test('what this server never sealed is nobody’s forgery', () => {
  const seal = memorySeal()
  for (const opaque of ['', 'gAAAAABo…', 'ctn1', 'ctn2.a.b', 'CTN1.a.b'])
    expect(seal.open(opaque, 'red', 'reasoning')).toBeUndefined()
})
test('two seals of one text differ, and a long text is packed', () => {
  const seal = memorySeal()
  expect(seal.seal('same', 'red', 'reasoning')).not.toBe(seal.seal('same', 'red', 'reasoning'))
  const long = 'and then I looked at the next file. '.repeat(500)
  const token = seal.seal(long, 'red', 'compaction')
  expect(token.length).toBeLessThan(long.length / 10)
  expect(seal.open(token, 'red', 'compaction')).toBe(long)
})

/** The format, written down a second time: what docs/storage.md says is enough to make a token. */
function craft(keyFile: string, plain: Buffer, tenant: string, kind: string): string {
  const [id = '', secret = ''] = (keyFile.split('\n').find((l) => l !== '' && !l.startsWith('#')) ?? '').split(' ')
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(secret, 'base64'), nonce)
  const field = (value: string) => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(Buffer.byteLength(value))
    return Buffer.concat([length, Buffer.from(value)])
  }
  cipher.setAAD(Buffer.concat(['ctn1.', id, tenant, kind].map(field)))
  const sealed = Buffer.concat([cipher.update(plain), cipher.final()])
  return `ctn1.${id}.${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')}`
}
test('a small token that would inflate past 16 MiB is refused, even with the right key', async () => {
  const path = fresh()
  const seal = await openSeal({ keyFile: path })
  const key = await readFile(path, 'utf8')
  const packed = (bytes: number) => Buffer.concat([Buffer.of(1), deflateSync(Buffer.alloc(bytes, 'a'))])
  expect(seal.open(craft(key, packed(16 * 1024 * 1024), 'red', 'reasoning'), 'red', 'reasoning')).toHaveLength(
    16 * 1024 * 1024,
  )
  expect(
    thrown(() => seal.open(craft(key, packed(16 * 1024 * 1024 + 1), 'red', 'reasoning'), 'red', 'reasoning')),
  ).toEqual(refused)
  expect(
    thrown(() => seal.open(craft(key, packed(100 * 1024 * 1024), 'red', 'reasoning'), 'red', 'reasoning')),
  ).toEqual(refused)
  const plain = Buffer.alloc(16 * 1024 * 1024 + 2)
  expect(thrown(() => seal.open(craft(key, plain, 'red', 'reasoning'), 'red', 'reasoning'))).toEqual(refused)
  for (const odd of [Buffer.alloc(0), Buffer.of(2, 65), Buffer.of(1, 1, 2, 3)])
    expect(thrown(() => seal.open(craft(key, odd, 'red', 'reasoning'), 'red', 'reasoning'))).toEqual(refused)
  expect(thrown(() => seal.open(`ctn1.a.${'A'.repeat(30_000_000)}`, 'red', 'reasoning'))).toEqual(refused)
})
test('a text that could never be opened again is not sealed', () => {
  expect(thrown(() => memorySeal().seal('a'.repeat(16 * 1024 * 1024 + 1), 'red', 'reasoning'))).toMatchObject({
    code: 'server_error',
  })
})
test('the key file is made once, whole, for its owner only, and opens what was sealed before', async () => {
  const path = fresh()
  const token = (await openSeal({ keyFile: path })).seal('kept', 'red', 'reasoning')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await stat(join(path, '..'))).mode & 0o777).toBe(0o700)
  await chmod(path, 0o644)
  expect((await openSeal({ keyFile: path })).open(token, 'red', 'reasoning')).toBe('kept')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})
test('of many that start at once all have the same key', async () => {
  for (let round = 0; round < 10; round++) {
    const path = fresh()
    const seals = await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        // Each a little later than the one before: some find no file, and another's once they have made their own.
        for (let turn = 0; turn < n * round; turn++) await new Promise((resolve) => setImmediate(resolve))
        return await openSeal({ keyFile: path })
      }),
    )
    const [first] = seals
    for (const [n, seal] of seals.entries())
      expect(first?.open(seal.seal(`from ${n}`, 'red', 'reasoning'), 'red', 'reasoning')).toBe(`from ${n}`)
    expect(await readdir(join(path, '..'))).toEqual(['seal.key'])
  }
})
test('a new first line seals from then on, older lines still open', async () => {
  const path = fresh()
  const old = await openSeal({ keyFile: path })
  const token = old.seal('before', 'red', 'reasoning')
  await writeFile(path, `2027 ${randomBytes(32).toString('base64')}\n${await readFile(path, 'utf8')}`)
  const rotated = await openSeal({ keyFile: path })
  expect(rotated.open(token, 'red', 'reasoning')).toBe('before')
  const newer = rotated.seal('after', 'red', 'reasoning')
  expect(newer.startsWith('ctn1.2027.')).toBe(true)
  expect(thrown(() => old.open(newer, 'red', 'reasoning'))).toEqual(refused)
})
test('a key file that cannot be used is said with what to do, and stays as it is', async () => {
  const path = fresh()
  await mkdir(join(path, '..'), { recursive: true })
  const key = randomBytes(32).toString('base64')
  for (const content of [
    'a short\n',
    `a ${key}\nno key\n`,
    `a ${key}\na ${key}\n`,
    `${key}\n`,
    `a ${randomBytes(16).toString('base64')}\n`,
  ]) {
    await writeFile(path, content)
    await expect(openSeal({ keyFile: path }), content).rejects.toThrow(
      /is no key of its own.*Restore the file from a backup/,
    )
    expect(await readFile(path, 'utf8')).toBe(content)
  }
  for (const content of ['', '# nothing\n\n']) {
    await writeFile(path, content)
    await expect(openSeal({ keyFile: path })).rejects.toThrow(/must have 1 to 64 keys, it has 0/)
  }
  await expect(openSeal({ keyFile: join(path, 'under', 'seal.key') })).rejects.toThrow(
    /could not be (read|made).*data folder/,
  )
  await expect(openSeal({ keyFile: folder })).rejects.toThrow(/could not be read/)
})
test('a token is bound to its key id too', async () => {
  // One secret under two ids: only the id that sealed opens.
  const path = fresh()
  await mkdir(join(path, '..'), { recursive: true })
  const secret = randomBytes(32).toString('base64')
  await writeFile(path, `one ${secret}\ntwo ${secret}\n`)
  const seal = await openSeal({ keyFile: path })
  const token = seal.seal('x', 'red', 'reasoning')
  expect(seal.open(token, 'red', 'reasoning')).toBe('x')
  expect(thrown(() => seal.open(token.replace('.one.', '.two.'), 'red', 'reasoning'))).toEqual(refused)
})
