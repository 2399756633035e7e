// What `continuo explain` prints: one object for programs, or sentences, the place itself and advice for people.
import { styleText } from 'node:util'
import type { Around, Cause, Explanation, Place, Run } from '../explain.ts'

/** An explanation with what it is about. `codec` and `engine` as the configuration names them. */
export type About = {
  readonly model: string
  readonly codec: string | undefined
  readonly engine: string | undefined
  readonly names: readonly [first: string, second: string]
  readonly notes: readonly string[]
}

const advice: Readonly<Record<Cause, string>> = {
  model:
    'An engine keeps what it has computed for each model by itself: use one name for the whole conversation. `--model NAME` compares the requests as if both named that one.',
  clock:
    'Put the date, the time or the counter into the newest message. What stands in front is kept only while it stays the same to the letter.',
  instructions:
    'Send the same instructions for the whole conversation; what is new goes into a developer message at its end.',
  order: 'Send the tools in the same order each time; sort them by name.',
  tools:
    'Offer the same tools, defined alike, for the whole conversation. `tool_choice` of type `allowed_tools` narrows what may be called and leaves the prompt as it is.',
  date: 'Go on with `previous_response_id`: a conversation keeps the day on which it began.',
  effort: 'Keep `reasoning.effort` for the whole conversation, or change it where a new one begins.',
  reasoning:
    'Set `retention: all` for this model (docs/config.md): reasoning then stays where it is, and costs room in the context. `--retention all` shows what that changes. With codec `jinja` the template decides.',
  'old clock':
    'Write dates, times and counters into a message once, when it is new, and never again: what was sent must stay the same to the letter.',
  edited:
    'Only ever append: what was sent must stay the same to the letter. Correct an earlier message with a new one at the end.',
  removed:
    'Whoever shortens a history should do so rarely and by much at once, since each time everything behind the gap is computed again.',
  inserted: 'Add what is new at the end of the conversation, not in the middle.',
  written:
    'The chat format writes these items anew when others follow. `--retention all` shows whether another retention helps.',
}
export const adviceFor = ({ parted }: Explanation): string | undefined => parted && advice[parted.cause]

/** `input.3`-like names are not used: the number is that of the whole conversation, as in the log. */
function placeName(place: Place): string {
  if (place.in === 'model') return 'the model'
  if (place.in === 'opening') return "what opens the model's turn"
  if (place.in === 'head') return place.part === 'instructions' ? 'the instructions' : `the head (${place.part})`
  const more = [place.role, place.name, place.call_id].filter((part) => part !== undefined).map(plain)
  return `item ${place.item} (${[plain(place.type), ...more].join(', ')})`
}

/** One JSON object; texts whole, as they are. */
export function asJson(of: Explanation, { names, notes, ...about }: About): string {
  const { parted, first, second, ...rest } = of
  const text = (runs: readonly Run[]): string => runs.map((run) => run.text).join('')
  const { common, first: a, second: b } = parted?.around ?? {}
  const around =
    common && a && b ? { around: { common: text(common), first: text(a), second: text(b) } } : { around: null }
  return JSON.stringify(
    {
      ...{ model: about.model, codec: about.codec ?? null, engine: about.engine ?? null },
      first: { name: names[0], ...first },
      second: { name: names[1], ...second },
      ...rest,
      parted: parted === undefined ? null : { ...parted, ...around, advice: adviceFor(of) },
      notes,
    },
    undefined,
    2,
  )
}

/** `colours`: for a terminal. */
export function asText(of: Explanation, about: About, colours: boolean): string {
  const { unit, first, second, parted } = of
  const sizes = [first, second].map(
    ({ tokens, items }, n) =>
      `  ${n === 0 ? 'first ' : 'second'}  ${plain(about.names[n] ?? '')}: ${number(items)} ${items === 1 ? 'item' : 'items'}${tokens === undefined ? '' : `, ${number(tokens)} ${unit}`}`,
  )
  const written =
    about.codec === undefined
      ? `items and settings of model ${plain(about.model)}`
      : `model ${plain(about.model)}, written by codec ${plain(about.codec)}`
  const lines = [written, ...sizes, '', ...verdict(of)]
  if (parted?.around) lines.push('', ...excerpt(parted.around, colours))
  if (parted) lines.push('', `Cost: ${cost(of)}`, `What to do: ${advice[parted.cause]}`)
  if (about.notes.length > 0) lines.push('', ...about.notes.map((note) => `Note: ${note}`))
  return `${lines.join('\n')}\n`
}

function verdict({ relation, common, prefill, own, unit, first, second, parted }: Explanation): string[] {
  switch (relation) {
    case 'identical':
      return ['They are identical: nothing has to be computed again.']
    case 'is the beginning':
      return [
        `The second is the beginning of the first: all of it is known, nothing is new. Were they given in the other order?`,
      ]
    case 'extends': {
      const items = second.items - first.items
      const theirs = own > 0 ? `, ${number(own)} of them the model's own answer` : ''
      return [
        `The second extends the first: ${number(prefill)} ${unit} are new${theirs} (${items} ${items === 1 ? 'item' : 'items'}).`,
        'This is as it should be: the engine goes on from what it has.',
      ]
    }
    case 'parts': {
      if (!parted) return []
      const where = placeName(parted.place)
      return [
        common === 0 && parted.place.in === 'model'
          ? `They part at once: ${plain(parted.why)}.`
          : `They part at ${unit === 'bytes' ? 'byte' : unit === 'tokens' ? 'token' : 'about token'} ${number(common)} of ${number(second.tokens)}, in ${where}:`,
        ...(parted.place.in === 'model' ? [] : [`${plain(parted.why)}.`]),
      ]
    }
  }
}
function cost({ prefill, again, unit, second, parted }: Explanation): string {
  const all = `${number(prefill)} of ${number(second.tokens)} ${unit} must be prefilled`
  if (parted?.place.in === 'model') return `${all}: nothing is shared.`
  return again > 0 ? `${all}, about ${number(again)} of them again.` : `${all}; none of the first is lost.`
}

function excerpt({ common, first, second, cut }: Around, colours: boolean): string[] {
  const written = (runs: readonly Run[], colour: 'dim' | 'red' | 'green'): string =>
    runs.map(({ text, control }) => paint(control ? 'cyan' : colour, plain(text), colours)).join('')
  const side = (runs: readonly Run[], colour: 'red' | 'green', more: boolean): string =>
    runs.length === 0 ? paint('dim', '(it ends here)', colours) : `${written(runs, colour)}${more ? '…' : ''}`
  return [
    `  both    ${cut.common ? '…' : ''}${written(common, 'dim')}`,
    `  first   ${side(first, 'red', cut.first)}`,
    `  second  ${side(second, 'green', cut.second)}`,
  ]
}
function paint(format: 'dim' | 'red' | 'green' | 'cyan', text: string, colours: boolean): string {
  return colours ? styleText(format, text) : text
}
const number = (n: number): string => n.toLocaleString('en')

/** Line ends stay visible; other control characters could redraw the terminal. */
const plain = (text: string): string =>
  text
    .replace(/\r?\n/g, '⏎')
    .replace(/\t/g, '⇥')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '·')
