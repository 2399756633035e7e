// HTTPS of our own: the certificate and its key from their files, what can be wrong with them said as a sentence, taken up
// again when they are renewed, and the servers that speak with them.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { RequestListener, ServerOptions } from 'node:http'
import { createServer, type Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import type { Config } from './config.ts'
import { ConfigError } from './config-error.ts'

export type TlsFiles = { readonly cert: string; readonly key: string }
export type Credentials = {
  readonly cert: string
  readonly key: string
  /** Last moment of the certificate. */
  readonly until: Date
  /** What is wrong with it that keeps no server from starting: it is expired, or not valid yet. */
  readonly warning: string | undefined
}
/** Hears sentences for the log; they name paths and times, no content of a file. */
type Told = (level: 'info' | 'error', sentence: string) => void

const mostBytes = 1024 * 1024
/** How often the files are looked at. */
const recheckMs = 60_000

/** The files of the configuration; undefined: the server speaks plain HTTP. */
export function tlsFiles({ tls: { cert, key } }: Config): TlsFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key }
}

/** Throws ConfigError with what is wrong with which file. */
export async function readCredentials(files: TlsFiles, now = Date.now()): Promise<Credentials> {
  const [cert, key] = await Promise.all([readPem(files, 'cert'), readPem(files, 'key')])
  const certificate = certificateIn(cert, files.cert)
  const privateKey = keyIn(key, files.key)
  if (!certificate.checkPrivateKey(privateKey))
    throw wrong(
      'key',
      `${files.key} is not the key of the certificate in ${files.cert}; give the two that belong together`,
    )
  takenTogether(cert, key, files.cert)
  const from = new Date(certificate.validFrom)
  const until = new Date(certificate.validTo)
  const warning =
    until.getTime() < now
      ? `the certificate in ${files.cert} expired on ${until.toISOString()}, so clients refuse it; renew it`
      : from.getTime() > now
        ? `the certificate in ${files.cert} is not valid before ${from.toISOString()}; look at the clock of this machine`
        : undefined
  return { cert, key, until, warning }
}

async function readPem(files: TlsFiles, which: keyof TlsFiles): Promise<string> {
  const path = files[which]
  try {
    if ((await stat(path)).size > mostBytes) throw new Error('it is larger than 1 MiB')
    return await readFile(path, 'utf8')
  } catch (e) {
    const why = e instanceof Error ? ('code' in e ? String(e.code) : e.message) : String(e)
    throw wrong(which, `${path} cannot be read (${why}); give the path of a file that the server's user may read`)
  }
}
function certificateIn(pem: string, path: string): X509Certificate {
  try {
    // DER would be taken too, but not by the TLS layer.
    if (pem.includes('-----BEGIN CERTIFICATE-----')) return new X509Certificate(pem)
  } catch {
    // Said below.
  }
  throw wrong(
    'cert',
    `${path} holds no certificate in PEM; it must begin with the server's own, the intermediate ones behind it`,
  )
}
function keyIn(pem: string, path: string): ReturnType<typeof createPrivateKey> {
  try {
    return createPrivateKey(pem)
  } catch (e) {
    if (/ENCRYPTED/.test(pem) || (e instanceof Error && 'code' in e && e.code === 'ERR_MISSING_PASSPHRASE'))
      throw wrong(
        'key',
        `the key in ${path} is encrypted, and there is nobody to ask for its passphrase; store it without one`,
      )
    throw wrong('key', `${path} holds no private key in PEM`)
  }
}
/** What only the TLS layer sees: keys that are too weak for it, and the certificates behind the first. */
function takenTogether(cert: string, key: string, path: string): void {
  try {
    createSecureContext({ cert, key })
  } catch (e) {
    throw wrong(
      'cert',
      `${path} is not taken by the TLS layer (${sentence(e)}); give whole certificates in PEM, with keys of 2048 bits or more`,
    )
  }
}
const wrong = (which: keyof TlsFiles, message: string) => new ConfigError([{ path: ['tls', which], message }])

/** Servers with one certificate, which follows its files. */
export class Tls {
  readonly #files: TlsFiles
  readonly #told: Told
  readonly #servers = new Set<Server>()
  readonly #everyMs: number
  #timer: NodeJS.Timeout | undefined
  #now: Credentials
  /** The files as they were when they were last looked at. */
  #seen: string

  private constructor(files: TlsFiles, told: Told, now: Credentials, seen: string, everyMs: number) {
    this.#files = files
    this.#told = told
    this.#now = now
    this.#seen = seen
    this.#everyMs = everyMs
    if (now.warning !== undefined) told('error', now.warning)
  }
  /** Throws ConfigError. Once there is a server, it is looked every `everyMs` whether the files have changed. */
  static async open(files: TlsFiles, told: Told, everyMs = recheckMs): Promise<Tls> {
    const seen = await stampOf(files)
    return new Tls(files, told, await readCredentials(files), seen, everyMs)
  }
  server(options: ServerOptions, listener: RequestListener): Server {
    const { cert, key } = this.#now
    const { headersTimeout } = options
    const server = createServer(
      { ...options, cert, key, ...(headersTimeout === undefined ? {} : { handshakeTimeout: headersTimeout }) },
      listener,
    )
    // Node 20 reads HTTP from a TLS socket below JavaScript. A request that comes while the last answer is still being
    // flushed makes it pause the parser, and what of that request is decrypted already then fails on the paused parser
    // (HPE_PAUSED): the connection is reset. Who listens for data makes Node read in JavaScript, where pausing works.
    server.on('secureConnection', (socket) => socket.on('data', nothing))
    this.#servers.add(server)
    this.#timer ??= setInterval(() => void this.#recheck(), this.#everyMs).unref()
    return server
  }
  close(): void {
    clearInterval(this.#timer)
  }
  async #recheck(): Promise<void> {
    const seen = await stampOf(this.#files)
    if (seen === this.#seen) return
    // Before the files are read: what changes meanwhile is seen next time.
    this.#seen = seen
    try {
      const now = await readCredentials(this.#files)
      for (const server of this.#servers) server.setSecureContext({ cert: now.cert, key: now.key })
      this.#now = now
      if (now.warning !== undefined) this.#told('error', now.warning)
      else this.#told('info', `the certificate was renewed; it is valid until ${now.until.toISOString()}`)
    } catch (e) {
      this.#told('error', `the certificate has changed and was not taken, the old one stays: ${sentence(e)}`)
    }
  }
}
const nothing = (): void => {}
const sentence = (e: unknown): string => (e instanceof Error ? e.message : String(e))

async function stampOf({ cert, key }: TlsFiles): Promise<string> {
  const each = [cert, key].map(async (path) => {
    const found = await stat(path).catch(() => undefined)
    return found ? `${found.ino} ${found.size} ${found.mtimeMs}` : 'none'
  })
  return (await Promise.all(each)).join(', ')
}
