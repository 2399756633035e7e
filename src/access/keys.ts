// Who a request is from: API keys, kept as SHA-256 digests only. Owns the key part of the configuration, the look-up,
// and the answer to "may this key go on?", which long-lived sockets ask anew for every response.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { ApiError } from '../protocol/errors.ts'
import type { Principal } from '../turn/ports.ts'

/** No `/`: `tenant/key` must name one pair only. */
const name = (what: string) =>
  z.string().regex(/^[A-Za-z0-9_.@:-]{1,128}$/, { error: `${what} is 1 to 128 letters, digits or any of _ . @ : -` })

/** One API key as it is configured. After parsing only the digest of its secret is left. */
export const keyConfig = z
  .strictObject({
    /** Names the key in logs and owns what it makes: changing the secret keeps the data, changing the id does not. */
    id: name('`id`'),
    tenant: name('`tenant`'),
    /** In clear; or its digest, as `printf %s "$KEY" | sha256sum` shows it. */
    secret: z
      .string()
      .regex(/^[\x21-\x7e]{8,512}$/, { error: 'a key has 8 to 512 visible ASCII characters and no spaces' })
      .optional(),
    secretSha256: z
      .string()
      .regex(/^[0-9a-fA-F]{64}$/, { error: 'a SHA-256 digest has 64 hexadecimal digits' })
      .optional(),
    /** False: this key gets 426 on the socket and uses HTTP. */
    websocket: z.boolean().optional(),
    /** Models this key may use, exact or ending in `*`; all where absent. */
    models: z.array(z.string().min(1).max(256)).max(1000).optional(),
  })
  .refine((key) => (key.secret === undefined) !== (key.secretSha256 === undefined), {
    error: 'a key has either `secret` or `secretSha256`',
  })
  .transform(({ secret, secretSha256, ...rest }) => ({
    ...rest,
    secretSha256: secret === undefined ? (secretSha256 ?? '').toLowerCase() : digestOf(secret),
  }))

/** A key as `keyring` takes it: what `keyConfig` gives, or written by hand. */
export type KeyConfig = {
  readonly id: string
  readonly tenant: string
  readonly secret?: string | undefined
  readonly secretSha256?: string | undefined
  readonly websocket?: boolean | undefined
  readonly models?: readonly string[] | undefined
}

/** The headers a key may come in, the first present one counts. `IncomingHttpHeaders` fits. */
export type KeyHeaders = {
  readonly authorization?: string | undefined
  readonly 'x-api-key'?: string | readonly string[] | undefined
  readonly 'api-key'?: string | readonly string[] | undefined
}
/** What a key lets its holder do. */
export type Grant = {
  readonly principal: Principal
  readonly websocket: boolean
  /** Exact names or prefixes ending in `*`; undefined: all. */
  readonly models: readonly string[] | undefined
}
export interface Keyring {
  /** Throws `invalid_api_key`, with one message for a missing and for an unknown key. */
  authenticate(headers: KeyHeaders): Grant
  /**
   * Is the key that `authenticate` gave this principal for still configured, with the same secret? Asks for the very
   * object: a copy is not valid, since two secrets of one key differ by it.
   */
  valid(principal: Principal): boolean
  /** May this principal use this model, by the keys as they are now? */
  allows(principal: Principal, model: string): boolean
  /**
   * Swaps all keys at once; who holds a removed or changed one is no longer valid. An empty set lets nobody in: only a
   * server that was started without keys is open. Throws where `keyring` throws, and then changes nothing.
   */
  replace(config: readonly KeyConfig[]): void
}

type Entry = { readonly digest: string; readonly grant: Grant }

/** The keys of a server. Without any, whoever asks is `local/local`. Throws for ids or secrets that are used twice. */
export function keyring(config: readonly KeyConfig[]): Keyring {
  let keys = index(config)
  let open: Grant | undefined = config.length > 0 ? undefined : grantOf({ id: 'local', tenant: 'local' })
  /** Which secret a principal came with. Weak: it lives as long as a connection holds the principal. */
  const cameWith = new WeakMap<Principal, string>()
  for (const { digest, grant } of keys.byOwner.values()) cameWith.set(grant.principal, digest)

  const current = (principal: Principal): Grant | undefined => {
    if (open) return principal.owner === open.principal.owner ? open : undefined
    const entry = keys.byOwner.get(principal.owner)
    return entry !== undefined && entry.digest === cameWith.get(principal) ? entry.grant : undefined
  }
  return {
    authenticate(headers) {
      if (open) return open
      const secret = presented(headers)
      const entry = secret === undefined ? undefined : keys.byDigest.get(digestOf(secret))
      if (!entry) throw new ApiError('invalid_api_key')
      return entry.grant
    },
    valid: (principal) => current(principal) !== undefined,
    allows(principal, model) {
      const grant = current(principal)
      return grant !== undefined && modelAllowed(grant.models, model)
    },
    replace(next) {
      keys = index(next)
      for (const { digest, grant } of keys.byOwner.values()) cameWith.set(grant.principal, digest)
      if (next.length > 0) open = undefined
    },
  }
}

/** `patterns` are exact names or prefixes ending in `*`; undefined allows every model. */
export function modelAllowed(patterns: readonly string[] | undefined, model: string): boolean {
  if (patterns === undefined) return true
  return patterns.some((p) => (p.endsWith('*') ? model.startsWith(p.slice(0, -1)) : p === model))
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex')
}

function grantOf({ id, tenant, websocket, models }: KeyConfig): Grant {
  const principal: Principal = Object.freeze({ tenant, key: id, owner: `${tenant}/${id}` })
  return Object.freeze({ principal, websocket: websocket ?? true, models: models && Object.freeze([...models]) })
}

function index(config: readonly KeyConfig[]) {
  const byDigest = new Map<string, Entry>()
  const byOwner = new Map<string, Entry>()
  for (const key of config) {
    const digest = key.secret === undefined ? key.secretSha256?.toLowerCase() : digestOf(key.secret)
    if (digest === undefined)
      throw new Error(`The key "${key.id}" has no secret; give it \`secret\` or \`secretSha256\`.`)
    const entry: Entry = { digest, grant: grantOf(key) }
    const { owner } = entry.grant.principal
    if (byOwner.has(owner))
      throw new Error(`The key "${owner}" is configured twice; give each key of a tenant its own id.`)
    const twin = byDigest.get(digest)
    if (twin)
      throw new Error(`The keys "${twin.grant.principal.owner}" and "${owner}" have the same secret; change one.`)
    byOwner.set(owner, entry)
    byDigest.set(digest, entry)
  }
  return { byDigest, byOwner }
}

/** The key a request shows. A present but unusable header does not fall through to the next: the client meant that one. */
function presented(headers: KeyHeaders): string | undefined {
  const { authorization } = headers
  if (authorization !== undefined) return /^bearer +([\x21-\x7e]{1,512}) *$/i.exec(authorization)?.[1]
  const key = headers['x-api-key'] ?? headers['api-key']
  return typeof key === 'string' && key.length <= 512 ? key : undefined
}
