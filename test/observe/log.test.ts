import { describe, expect, it } from 'vitest'
import { createLog } from '../../src/observe/log.ts'
import { ApiError } from '../../src/protocol/errors.ts'

const canary = 'canary-4711'

function written(level: string, write: (log: ReturnType<typeof createLog>) => void, pretty = false): string {
  const lines: string[] = []
  write(createLog({ level, pretty }, { write: (text: string) => void lines.push(text) }))
  return lines.join('')
}

describe('the log', () => {
  it('writes ids, counts and times as one JSON object a line', () => {
    const line: unknown = JSON.parse(
      written('info', (log) => log.info({ response: 'resp_1', bytes: 5, delta: true }, 'turn ended')),
    )
    expect(line).toMatchObject({ level: 'info', response: 'resp_1', bytes: 5, delta: true, msg: 'turn ended' })
    expect(line).toHaveProperty('time', expect.stringMatching(/^\d{4}-.*Z$/))
  })

  it('names a field that is not on the list and withholds its value', () => {
    const text = written('trace', (log) => {
      log.info(
        { body: canary, headers: { authorization: canary }, secret: canary, response: { id: canary }, model: 'm' },
        'x',
      )
      log.child({ model: 'm' }).info({ prompt: [canary] }, 'y')
    })
    expect(text).not.toContain(canary)
    expect(JSON.parse(text.split('\n')[0] ?? '')).toMatchObject({
      withheld: 'body,headers,secret,response',
      model: 'm',
    })
  })

  it('does not let a child logger bind what is not on the list', () => {
    expect(written('info', (log) => log.child({ body: canary, connection: 'c1' }).info('x'))).not.toContain(canary)
  })

  it('writes of an error its kind and place, and its text only at debug', () => {
    const fail = (log: ReturnType<typeof createLog>) => {
      const cause = new TypeError(`no ${canary}\n    at ${canary}`)
      log.error({ err: new Error(`Unexpected token in "${canary}"`, { cause }) }, 'it broke')
      log.error(new SyntaxError(canary))
      log.error({ err: new ApiError('server_error', canary) })
      log.error({ err: canary }, 'odd')
      log.info('%s', canary)
    }
    const text = written('info', fail)
    expect(text).not.toContain(canary)
    expect(text).toContain('log.test.ts')
    expect(text).toContain('"code":"server_error"')
    expect(written('debug', fail)).toContain(canary)
  })

  it('writes the text of an error of the system, which holds a path or an address only', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
    })
    expect(written('info', (log) => log.error({ err: refused }, 'x'))).toContain('connect ECONNREFUSED 127.0.0.1:1')
  })

  it('cuts queries and passwords out of addresses, and long texts to 256 characters', () => {
    const text = written('info', (log) =>
      log.info({ path: `/v1?key=${canary}`, url: `http://u:${canary}@h/x`, model: 'm'.repeat(10_000) }, 'x'),
    )
    expect(text).not.toContain(canary)
    expect(text).toContain('"path":"/v1"')
    expect(text.length).toBeLessThan(700)
  })

  it('writes one readable line for people', () => {
    const text = written('info', (log) => log.warn({ port: 1, model: 'a b', err: new RangeError('x') }, 'slow'), true)
    expect(text).toMatch(/^\d\d:\d\d:\d\d\.\d{3} WARN {2}slow port=1 model="a b" err=\{"type":"RangeError"\}\n {4}at /)
  })
})
