import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Message, textOf } from '../../src/protocol/items.ts'
import { parseItems, parseTools } from '../../src/protocol/parse.ts'
import { families, goldens, undisputed } from './goldens.ts'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

describe.each(families)('the goldens of %s', (family) => {
  const { cases, family: name } = goldens(family)

  it('name their family and have 1,000 turns that no codec may render otherwise', () => {
    expect(name).toBe(family)
    const turns = cases.filter(undisputed).reduce((sum, one) => sum + one.turns.length, 0)
    expect(turns).toBeGreaterThanOrEqual(1000)
  })
  it('hash every point at which the model is asked, and no other', () => {
    for (const { items, turns, text } of cases) {
      const made = items.map((item) =>
        item.type === 'message'
          ? item.role === 'assistant'
          : item.type === 'reasoning' || item.type === 'function_call',
      )
      const asked = items.flatMap((_, n) => (made[n] !== true && made[n + 1] !== false ? [n + 1] : []))
      expect(turns.map((turn) => turn.upto)).toEqual(asked)
      expect(turns.at(-1)?.sha256).toBe(sha256(text))
    }
  })
  it('are made of items and tools as the door leaves them', () => {
    for (const { items, settings } of cases) {
      expect(parseItems(items, 'input')).toEqual(items)
      expect(() => parseTools(settings.tools, 'tools')).not.toThrow()
    }
  })
  it('show what the user said', () => {
    for (const { items, text, flags } of cases) {
      // Templates trim in their own ways.
      if (flags.edges) continue
      const said = items.filter((item): item is Message => item.type === 'message' && item.role === 'user')
      expect(said.every((item) => item.content.every((part) => text.includes(textOf([part]))))).toBe(true)
    }
  })
})
