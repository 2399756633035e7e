// The shadow check: does a conversation that was only ever appended to still say what rendering it anew would say? Looked at
// after a turn, off the hot path, always in tests and for a share of turns in production.
import type { Settings } from '../protocol/request.ts'
import type { Chain } from './chain.ts'
import type { Codec } from './ports.ts'

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
  /** Perhaps looks at what was sent for this link, later. Never throws. */
  look(chain: Chain, settings: Settings, codec: Codec): void {
    if (this.#share === 0 || this.#running >= most || Math.random() >= this.#share) return
    const sent = chain.encoded?.codec === codec.id ? chain.encoded.prompt : undefined
    if (!sent) return
    this.#running++
    void this.#check(chain, sent.view(), settings, codec)
      .catch(() => {})
      .finally(() => this.#running--)
  }
  async #check(chain: Chain, sent: Uint32Array, settings: Settings, codec: Codec): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.counts.checks++
    const found = (await layoutDiffers(chain, sent, settings, codec)) ?? wordsDiffer(chain, settings, codec)
    if (!found) return
    this.counts.mismatches++
    // From here on this conversation is rendered in full, from its items.
    chain.distrust()
    this.#report({ response: chain.response, owner: chain.owner, ...found })
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
/** The newest turn of the model: do its ids still say its items? */
function wordsDiffer(chain: Chain, settings: Settings, codec: Codec): Found | undefined {
  let link: Chain | undefined = chain
  while (link && link.generated === undefined) link = link.parent
  const { generated, parent } = link ?? {}
  if (!link || !parent || generated?.codec !== codec.id || generated.stop === undefined) return undefined
  const decoder = codec.decoder(settings, parent)
  const stop = codec.tokenizer.control(generated.stop)
  const deltas = [
    ...decoder.push({ tokens: [...generated.ids, ...(stop === undefined ? [] : [stop])] }),
    ...decoder.end('stop'),
  ]
  const items = deltas.filter((delta) => delta.type === 'end').length
  if (items === link.items.length) return undefined
  return {
    at: parent.encoded?.prompt.length ?? 0,
    item: undefined,
    why: `${items} items are in the tokens of ${link.items.length}`,
  }
}
