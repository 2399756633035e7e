// API keys: who gets in, as whom, and who no longer does.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keyConfig, type KeyHeaders, keyring, modelAllowed } from '../../src/access/keys.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const one = { id: 'ci', tenant: 'red', secret: 'sk-red-ci-000000' }
const two = {
  id: 'ci',
  tenant: 'blue',
  secretSha256: sha256('sk-blue-ci-00000').toUpperCase(),
  websocket: false,
  models: ['gpt-*', 'x'],
}
const bearer = (secret: string): KeyHeaders => ({ authorization: `Bearer ${secret}` })
const refused = expect.objectContaining({ code: 'invalid_api_key', status: 401 })
const thrown = (work: () => unknown): unknown => {
  try {
    return { returned: work() }
  } catch (error) {
    return error
  }
}

describe('authenticate', () => {
  test('knows a key by its secret or by its digest, in each of three headers', () => {
    const keys = keyring([one, two])
    const red = { principal: { tenant: 'red', key: 'ci', owner: 'red/ci' }, websocket: true, models: undefined }
    const blue = {
      principal: { tenant: 'blue', key: 'ci', owner: 'blue/ci' },
      websocket: false,
      models: ['gpt-*', 'x'],
    }
    expect(keys.authenticate(bearer(one.secret))).toEqual(red)
    expect(keys.authenticate({ authorization: `bearer   ${one.secret} ` })).toEqual(red)
    expect(keys.authenticate({ 'x-api-key': one.secret })).toEqual(red)
    expect(keys.authenticate({ 'api-key': 'sk-blue-ci-00000' })).toEqual(blue)
  })
  test('refuses missing, unknown and unusable keys alike', () => {
    const keys = keyring([one, two])
    const refusals = [
      {},
      { authorization: '' },
      bearer(''),
      bearer('sk-unknown-00000'),
      bearer(`${one.secret}x`),
      bearer(one.secret.toUpperCase()),
      bearer(`${one.secret} ${one.secret}`),
      bearer(sha256(one.secret)),
      bearer('x'.repeat(100_000)),
      { authorization: one.secret },
      { authorization: `Basic ${one.secret}` },
      { 'x-api-key': [one.secret, one.secret] },
      { 'x-api-key': `${one.secret} ` },
      { 'x-api-key': '', 'api-key': one.secret },
    ].map((headers) => thrown(() => keys.authenticate(headers)))
    for (const error of refusals) expect(error).toEqual(refused)
    expect(new Set(refusals.map((error) => (error as Error).message)).size).toBe(1)
  })
  test('does not fall back to another header where Authorization is there', () => {
    const keys = keyring([one])
    expect(thrown(() => keys.authenticate({ ...bearer('sk-unknown-00000'), 'x-api-key': one.secret }))).toEqual(refused)
  })
  test('lets in exactly the configured secrets', () => {
    const secret = fc.stringMatching(/^[\x21-\x7e]{8,20}$/)
    fc.assert(
      fc.property(fc.uniqueArray(secret, { minLength: 1, maxLength: 6 }), secret, (secrets, other) => {
        const keys = keyring(secrets.map((s, n) => ({ id: `k${n}`, tenant: 't', secret: s })))
        for (const [n, s] of secrets.entries()) expect(keys.authenticate(bearer(s)).principal.key).toBe(`k${n}`)
        fc.pre(!secrets.includes(other))
        expect(thrown(() => keys.authenticate(bearer(other)))).toEqual(refused)
      }),
    )
  })
  test('without any configured key everybody is local, with or without a key', () => {
    const keys = keyring([])
    const local = { tenant: 'local', key: 'local', owner: 'local/local' }
    for (const headers of [{}, bearer('anything'), { authorization: 'Basic x' }]) {
      const { principal, websocket, models } = keys.authenticate(headers)
      expect([principal, websocket, models]).toEqual([local, true, undefined])
      expect(keys.valid(principal)).toBe(true)
    }
  })
  test('holds no secret in clear', () => {
    const config = keyConfig.parse(one)
    expect(JSON.stringify(config)).not.toContain(one.secret)
    expect(config).toEqual({ id: 'ci', tenant: 'red', secretSha256: sha256(one.secret) })
    expect(keyring([config]).authenticate(bearer(one.secret)).principal.owner).toBe('red/ci')
  })
})

describe('replace', () => {
  test('ends the validity of removed keys and of changed secrets, and of nothing else', () => {
    const keys = keyring([one, two])
    const red = keys.authenticate(bearer(one.secret)).principal
    const blue = keys.authenticate(bearer('sk-blue-ci-00000')).principal
    keys.replace([one, { ...two, models: ['y'] }])
    expect([keys.valid(red), keys.valid(blue)]).toEqual([true, true])
    expect([keys.allows(blue, 'y'), keys.allows(blue, 'x')]).toEqual([true, false])
    keys.replace([one, { ...two, secretSha256: sha256('sk-blue-new-0000') }])
    expect([keys.valid(red), keys.valid(blue), keys.allows(blue, 'y')]).toEqual([true, false, false])
    expect(thrown(() => keys.authenticate(bearer('sk-blue-ci-00000')))).toEqual(refused)
    // The new secret is the same owner, and does not bring the old one back.
    const renewed = keys.authenticate(bearer('sk-blue-new-0000')).principal
    expect(renewed.owner).toBe(blue.owner)
    expect([keys.valid(renewed), keys.valid(blue)]).toEqual([true, false])
    keys.replace([two])
    expect(keys.valid(red)).toBe(false)
  })
  test('by nothing lets nobody in', () => {
    const keys = keyring([one])
    const { principal } = keys.authenticate(bearer(one.secret))
    keys.replace([])
    expect(keys.valid(principal)).toBe(false)
    expect(thrown(() => keys.authenticate({}))).toEqual(refused)
  })
  test('closes an open server, and the local principal is no longer valid', () => {
    const keys = keyring([])
    const { principal } = keys.authenticate({})
    keys.replace([{ id: 'local', tenant: 'local', secret: 'sk-local-000000' }])
    expect(keys.valid(principal)).toBe(false)
    expect(thrown(() => keys.authenticate({}))).toEqual(refused)
  })
  test('by a broken set changes nothing', () => {
    const keys = keyring([one])
    expect(() => keys.replace([two, two])).toThrow(/"blue\/ci" is configured twice/)
    expect(keys.valid(keys.authenticate(bearer(one.secret)).principal)).toBe(true)
    expect(thrown(() => keys.authenticate(bearer('sk-blue-ci-00000')))).toEqual(refused)
  })
  test('a principal made by hand is not valid', () => {
    const keys = keyring([one])
    expect(keys.valid({ tenant: 'red', key: 'ci', owner: 'red/ci' })).toBe(false)
  })
})

test('models are exact names or prefixes', () => {
  expect(modelAllowed(undefined, 'any')).toBe(true)
  expect(modelAllowed([], 'any')).toBe(false)
  expect(modelAllowed(['gpt-*', 'x'], 'gpt-5')).toBe(true)
  expect(modelAllowed(['gpt-*', 'x'], 'gpt')).toBe(false)
  expect(modelAllowed(['gpt-*', 'x'], 'xy')).toBe(false)
  expect(modelAllowed(['*'], 'any')).toBe(true)
  const keys = keyring([two])
  const { principal } = keys.authenticate(bearer('sk-blue-ci-00000'))
  expect([keys.allows(principal, 'gpt-5'), keys.allows(principal, 'o3')]).toEqual([true, false])
})

test('a broken configuration is refused with what is wrong', () => {
  const refusal = (value: unknown) =>
    keyConfig
      .safeParse(value)
      .error?.issues.map((i) => i.message)
      .join()
  expect(refusal({ id: 'a', tenant: 't' })).toContain('either `secret` or `secretSha256`')
  expect(refusal({ id: 'a', tenant: 't', secret: 'sk-000000', secretSha256: sha256('x') })).toContain('either')
  expect(refusal({ id: 'a/b', tenant: 't', secret: 'sk-000000' })).toContain('`id` is')
  expect(refusal({ id: 'a', tenant: 't/u', secret: 'sk-000000' })).toContain('`tenant` is')
  expect(refusal({ id: 'a', tenant: 't', secret: 'short' })).toContain('8 to 512')
  expect(refusal({ id: 'a', tenant: 't', secretSha256: 'abc' })).toContain('64 hexadecimal')
  expect(refusal({ id: 'a', tenant: 't', secret: 'sk-000000', modles: [] })).toContain('modles')
  expect(() => keyring([one, { ...one, id: 'other' }])).toThrow(/"red\/ci" and "red\/other" have the same secret/)
  expect(() => keyring([{ id: 'a', tenant: 't' }])).toThrow(/has no secret/)
})
