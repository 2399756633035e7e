// The shadow check: does a conversation that was only ever appended to still say what rendering it anew would say? Looked at
// after a turn, off the hot path, always in tests and for a share of turns in production.
import type { Settings } from '../protocol/request.ts'
import type { Chain } from './chain.ts'
import type { Codec } from './ports.ts'
import type { TokenRun } from './tokens.ts'

/** `at`: the token; `item`: of the conversation, 0 the first. */
export type Mismatch = {
  readonly response: string
  readonly owner: string
  readonly at: number
  readonly item: number | undefined
  readonly why: string
}
/** Checks that may be under way at once: more turns are not looked at. */
const most = 2

export class Shadow {
  /** Of turns, from 0 to 1. */
  readonly #share: number
  readonly #report: (mismatch: Mismatch) => void
  #running = 0
  readonly counts = { checks: 0, mismatches: 0 }

  constructor(share: number, report: (mismatch: Mismatch) => void) {
    this.#share = share
    this.#report = report
  }
  /** Perhaps looks at a turn, later: at what was sent for `asked`, and at what the model said in `said`. Never throws. */
  look(asked: Chain, sent: TokenRun, said: Chain, settings: Settings, codec: Codec): void {
    if (this.#share === 0 || this.#running >= most || Math.random() >= this.#share) return
    this.#running++
    void this.#check(asked, sent.view(), said, settings, codec)
      .catch(() => {})
      .finally(() => this.#running--)
  }
  async #check(asked: Chain, sent: Uint32Array, said: Chain, settings: Settings, codec: Codec): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.counts.checks++
    const found = (await layoutDiffers(asked, sent, settings, codec)) ?? wordsDiffer(said, sent, settings, codec)
    if (!found) return
    this.counts.mismatches++
    // From here on this conversation is rendered in full, from its items.
    said.distrust()
    this.#report({ response: said.response, owner: said.owner, ...found })
  }
}
type Found = Pick<Mismatch, 'at' | 'item' | 'why'>

async function layoutDiffers(
  chain: Chain,
  sent: Uint32Array,
  settings: Settings,
  codec: Codec,
): Promise<Found | undefined> {
  const { ids, starts } = await codec.layout(chain, settings)
  const at = ids.findIndex((id, n) => id !== sent[n])
  if (at < 0 && ids.length === sent.length) return undefined
  const place = at < 0 ? ids.length : at
  const behind = starts.findIndex((start) => start > place)
  const item = starts.length === 0 ? undefined : (behind < 0 ? starts.length : behind) - 1
  return {
    at: place,
    item: item === undefined || item < 0 ? undefined : item,
    why: 'rendering it anew gives other tokens',
  }
}
/** Do the ids that the model wrote say the items of its link? Read as they were when they came: under the same settings. */
function wordsDiffer(said: Chain, sent: Uint32Array, settings: Settings, codec: Codec): Found | undefined {
  const { generated, parent } = said
  if (!parent || generated?.codec !== codec.id || generated.stop === undefined) return undefined
  const decoder = codec.decoder(settings, parent)
  const stop = codec.tokenizer.control(generated.stop)
  const deltas = [
    ...decoder.push({ tokens: [...generated.ids, ...(stop === undefined ? [] : [stop])] }),
    ...decoder.end('stop'),
  ]
  const items = deltas.filter((delta) => delta.type === 'end').length
  if (items === said.items.length) return undefined
  return { at: sent.length, item: undefined, why: `${items} items are in the tokens of ${said.items.length}` }
}
