// Text with marks in it: texts and control tokens as units, text up to a mark, text without any of some marks.
import { choice, empty, optional, repeat, sequence, set, text, token } from './grammar-expression.ts'
import type { Expression, Rules } from './grammar-expression.ts'
import { complement, everything, of } from './grammar-ranges.ts'

/** A stretch of text, or a control token by its id. */
export type Unit = string | number
type Control = ((name: string) => number | undefined) | undefined

/** Longer names of control tokens are not looked for. */
const maxName = 64

/** The control tokens in a text, the longest first, and what stands between them. Without `control` all of it is text. */
export function unitsOf(value: string, control: Control): Unit[] {
  if (control === undefined) return value === '' ? [] : [value]
  const out: Unit[] = []
  let from = 0
  for (let at = 0; at < value.length; at++) {
    // Names of letters or blanks alone are no marks: tokenizers also list runs of spaces as added tokens.
    if (!'<[|｜'.includes(value[at] ?? '')) continue
    for (let to = Math.min(value.length, at + maxName); to > at + 2; to--) {
      const id = '>]|｜'.includes(value[to - 1] ?? '') ? control(value.slice(at, to)) : undefined
      if (id === undefined) continue
      if (at > from) out.push(value.slice(from, at))
      out.push(id)
      from = to
      at = to - 1
      break
    }
  }
  if (from < value.length) out.push(value.slice(from))
  return out
}
export const unit = (one: Unit): Expression => (typeof one === 'number' ? token(one) : text(one))
export const exactly = (units: readonly Unit[]): Expression => sequence(...units.map(unit))

/**
 * Any text without this token. llama.cpp does not let a token that ends inside a character pass `!<[id]>`, and a class of
 * characters lets it pass; so either.
 */
const withoutToken = (id: number): Expression => repeat(choice(token(id, true), set(complement(of('<[|｜')))))

/** Text up to the first `end`, and `end` itself. Without an end, any text. `names`: of the tokens in it. */
export function until(end: readonly Unit[], rules: Rules, names: (id: number) => string = () => ''): Expression {
  const [first] = end
  if (first === undefined) return rules.add('text', repeat(set(everything)))
  if (typeof first === 'number') return sequence(rules.add('text', withoutToken(first)), exactly(end))
  // Its tokens may stand in the text, where other words follow them.
  return automaton([end.map((one) => (typeof one === 'number' ? names(one) : one)).join('')], rules, 'found')
}

/** Text in which none of the marks stands; what it begins to say at its end may be the start of one. */
export function without(marks: readonly Unit[], rules: Rules, names: (id: number) => string): Expression {
  const unique = [...new Set(marks)]
  const [only] = unique
  if (only === undefined) return rules.add('text', repeat(set(everything)))
  if (unique.length === 1 && typeof only === 'number') return rules.add('text', withoutToken(only))
  // Several tokens cannot be excluded at once; their names can, for a control token's text is its name.
  const words = unique.map((one) => (typeof one === 'number' ? names(one) : one))
  return automaton(words, rules, 'absent')
}

/**
 * Aho and Corasick's automaton as rules, one per state. `found`: texts that end with the first word found. `absent`: texts
 * in which no word stands.
 */
function automaton(words: readonly string[], rules: Rules, wanted: 'found' | 'absent'): Expression {
  const letters = [...new Set(words.flatMap((word) => Array.from(word)))]
  const prefixes = [
    ...new Set(words.flatMap((word) => Array.from(word, (_, n) => Array.from(word).slice(0, n).join('')))),
  ]
  const states = new Map(prefixes.map((prefix) => [prefix, rules.reserve('text')]))
  const others = complement(of(letters.join('')))
  for (const [prefix, name] of states) {
    const targets = new Map<string, string[]>()
    let done: Expression = wanted === 'found' ? choice() : empty
    for (const letter of letters) {
      const next = prefix + letter
      if (words.some((word) => next.endsWith(word))) {
        if (wanted === 'found') done = choice(done, text(letter))
        continue
      }
      // The longest end of what was read that a word begins with.
      let known = Array.from(next)
      while (!states.has(known.join(''))) known = known.slice(1)
      const list = targets.get(known.join(''))
      if (list === undefined) targets.set(known.join(''), [letter])
      else list.push(letter)
    }
    const rule = (state: string): Expression => ({ type: 'rule', name: states.get(state) ?? name })
    const back = targets.get('') ?? []
    targets.delete('')
    const steps = [...targets].map(([state, found]) => sequence(set(of(found.join(''))), rule(state)))
    // Letters that lead back to the start go with all that no word holds.
    const rest = complement(of(letters.filter((letter) => !back.includes(letter)).join('')))
    rules.set(name, choice(sequence(set(back.length > 0 ? rest : others), rule('')), ...steps, done))
  }
  return { type: 'rule', name: states.get('') ?? '' }
}

/** Up to two line ends: what models write between parts, and no text to who reads it, as a blank would be. */
export const gap = repeat(text('\n'), 0, 2)
export const newline = optional(text('\n'))
