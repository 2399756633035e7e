import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { afterAll, describe, expect, it } from 'vitest'
import { ConfigError } from '../src/config.ts'
import { readCredentials, Tls, type TlsFiles } from '../src/tls.ts'
import { ca, type Name, pairOf, pathOf } from './tls/files.ts'
import { eventually } from './wire/server.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-tls-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function complaint(files: TlsFiles): Promise<{ path: unknown; message: string }> {
  const error: unknown = await readCredentials(files).catch((e: unknown) => e)
  if (!(error instanceof ConfigError) || !error.problems[0]) throw new Error('no ConfigError')
  return error.problems[0]
}

describe('what can be wrong with a certificate and its key is said with what to do', () => {
  const { cert, key } = pairOf('server')
  const letter = join(folder, 'letter.pem')
  writeFileSync(letter, 'Dear server')
  const broken = join(folder, 'broken.pem')
  writeFileSync(broken, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')

  const chain = join(folder, 'chain.pem')
  writeFileSync(chain, readFileSync(cert, 'utf8') + readFileSync(broken, 'utf8'))

  it('nothing is wrong with a pair that fits', async () => {
    const found = await readCredentials({ cert, key })
    expect([found.warning, found.until.toISOString()]).toEqual([undefined, '2124-01-01T00:00:00.000Z'])
  })
  it.each([
    [
      'a file that is not there',
      { cert: join(folder, 'none.pem'), key },
      'cert',
      /none\.pem cannot be read \(ENOENT\)/,
    ],
    ['a folder', { cert, key: folder }, 'key', /cannot be read \(EISDIR\)/],
    ['a certificate that is no PEM', { cert: letter, key }, 'cert', /holds no certificate in PEM/],
    ['a certificate that is broken', { cert: broken, key }, 'cert', /holds no certificate in PEM/],
    ['a broken one behind it', { cert: chain, key }, 'cert', /is not taken by the TLS layer.*give whole certificates/],
    ['a key where the certificate should be', { cert: key, key }, 'cert', /holds no certificate in PEM/],
    ['a key that is no PEM', { cert, key: letter }, 'key', /holds no private key in PEM/],
    ['a key with a passphrase', { cert, key: pathOf('encrypted.key') }, 'key', /is encrypted.*store it without/],
    ["another certificate's key", { cert, key: pairOf('renewed').key }, 'key', /is not the key of the certificate/],
  ] as const)('%s', async (_, files, where, sentence) => {
    const { path, message } = await complaint(files)
    expect(path).toEqual(['tls', where])
    expect(message).toMatch(sentence)
  })
  it('one that is expired or not valid yet can be served, with a warning', async () => {
    expect((await readCredentials(pairOf('expired'))).warning).toMatch(/expired on 2021-01-01T00:00:00.000Z.*renew it/)
    const early = await readCredentials({ cert, key }, Date.parse('2023-01-01'))
    expect(early.warning).toMatch(/not valid before 2024-01-01T00:00:00.000Z.*clock/)
  })
})

describe('a certificate that is renewed on disk', () => {
  /** Name in the certificate that a new connection is shown. */
  const shown = (port: number) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ca }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN))
        socket.end()
      })
      socket.on('error', reject)
    })
  const files = { cert: join(folder, 'live.pem'), key: join(folder, 'live.key') }
  const place = (part: keyof TlsFiles, name: Name) => copyFileSync(pairOf(name)[part], files[part])

  it('is taken up without a restart, once both files are there; until then the old one stays', async () => {
    place('cert', 'server')
    place('key', 'server')
    const said: string[] = []
    const tls = await Tls.open(files, (level, sentence) => said.push(`${level}: ${sentence}`), 10)
    const server = tls.server({}, (_, answer) => answer.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    expect(await shown(port)).toBe('server')

    place('cert', 'renewed')
    await eventually(() => expect(said).toEqual([expect.stringMatching(/^error: .*was not taken.*is not the key/s)]))
    expect(await shown(port)).toBe('server')
    place('key', 'renewed')
    await eventually(() => expect(said[1]).toMatch(/^info: the certificate was renewed; it is valid until 2124/))
    expect(await shown(port)).toBe('renewed')

    rmSync(files.cert)
    await eventually(() => expect(said[2]).toMatch(/^error: .*cannot be read \(ENOENT\)/))
    expect(await shown(port)).toBe('renewed')
    expect(said).toHaveLength(3)
    tls.close()
    server.close()
  })
})
