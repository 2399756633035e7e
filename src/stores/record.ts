// What all stores agree on about a stored response: which of its items is the newest, how its input is paged, and the
// record that a check writes and reads.
import { ApiError } from '../protocol/errors.ts'
import type { Item } from '../protocol/items.ts'
import type { Page, Stored } from '../turn/ports.ts'

/** Most items of one page, whatever was asked for. */
const maxPage = 1000

/** Every item a record holds, an item once per place it stands in; of two with one id the later is the newer. */
export function itemsOf(record: Stored): Item[] {
  return [...record.links.flatMap((link) => link.items), ...record.input, ...record.response.output]
}

export const idOf = (item: Item): string | null => (typeof item.id === 'string' ? item.id : null)

/**
 * The places, in page order, of one page of a list whose entries have these ids. Throws `item_not_found` where `after`
 * is not among them; where it is there twice the later place counts, so that paging always moves on.
 */
export function pageOf(
  ids: readonly (string | null)[],
  page: Page,
): { readonly places: number[]; readonly more: boolean } {
  const order = ids.map((_, place) => place)
  if (page.order === 'desc') order.reverse()
  let start = 0
  if (page.after !== undefined) {
    start = order.findLastIndex((place) => ids[place] === page.after) + 1
    if (start === 0) throw new ApiError('item_not_found', 'This response has no input item with that id.', 'after')
  }
  const end = start + Math.min(Math.max(1, Math.floor(page.limit)), maxPage)
  return { places: order.slice(start, end), more: end < order.length }
}

/** No principal's owner lacks the slash, so nobody can read what a check writes. */
export const checkOwner = 'check'

/** A whole record, as small as one can be. `id` names the response. */
export function checkRecord(id: string, createdAt: number): Stored {
  const text: Item = { type: 'message', id: `${id}_in`, role: 'user', content: [{ type: 'input_text', text: 'check' }] }
  return {
    owner: checkOwner,
    parent: undefined,
    links: [{ from: 'input', items: [text] }],
    input: [text],
    response: {
      id,
      object: 'response',
      created_at: createdAt,
      status: 'completed',
      background: false,
      completed_at: createdAt,
      error: null,
      frequency_penalty: 0,
      incomplete_details: null,
      instructions: null,
      max_output_tokens: null,
      max_tool_calls: null,
      model: 'check',
      output: [],
      parallel_tool_calls: true,
      presence_penalty: 0,
      previous_response_id: null,
      prompt_cache_key: null,
      reasoning: null,
      safety_identifier: null,
      service_tier: 'default',
      store: true,
      temperature: 1,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: 0,
      top_p: 1,
      truncation: 'disabled',
      usage: null,
      metadata: {},
    },
  }
}
