// Every way to name a response or an item, over HTTP and in frames, each under the route or frame it belongs to.

export const hello = { model: 'm', input: [{ role: 'user', content: 'hello' }] }
/** Something that may or may not be the asker's: ids of a response and of an item in it. */
export type Named = { readonly response: string; readonly item: string }

// ── what can be asked over HTTP: one row per way to name something, each under the route it belongs to ──
export type Ask = {
  readonly covers: string
  readonly name: string
  readonly method: string
  path(n: Named): string
  body?(n: Named): unknown
}
export const asks: Ask[] = [
  { covers: 'GET /:id', name: 'retrieve', method: 'GET', path: (n) => `/${n.response}` },
  { covers: 'GET /:id', name: 'stream', method: 'GET', path: (n) => `/${n.response}?stream=true` },
  {
    covers: 'GET /:id',
    name: 'stream from 3 on',
    method: 'GET',
    path: (n) => `/${n.response}?stream=true&starting_after=3`,
  },
  { covers: 'DELETE /:id', name: 'delete', method: 'DELETE', path: (n) => `/${n.response}` },
  { covers: 'POST /:id/cancel', name: 'cancel', method: 'POST', path: (n) => `/${n.response}/cancel` },
  { covers: 'GET /:id/input_items', name: 'list the input', method: 'GET', path: (n) => `/${n.response}/input_items` },
  {
    covers: 'GET /:id/input_items',
    name: 'list the input behind an item',
    method: 'GET',
    path: (n) => `/${n.response}/input_items?after=${n.item}`,
  },
  {
    covers: 'POST ',
    name: 'continue',
    method: 'POST',
    path: () => '',
    body: (n) => ({ ...hello, previous_response_id: n.response }),
  },
  {
    covers: 'POST ',
    name: 'continue, streamed',
    method: 'POST',
    path: () => '',
    body: (n) => ({ ...hello, stream: true, previous_response_id: n.response }),
  },
  {
    covers: 'POST ',
    name: 'refer to an item',
    method: 'POST',
    path: () => '',
    body: (n) => ({ ...hello, input: [{ type: 'item_reference', id: n.item }] }),
  },
  {
    covers: 'POST /compact',
    name: 'compact',
    method: 'POST',
    path: () => '/compact',
    body: (n) => ({ model: 'm', previous_response_id: n.response }),
  },
  {
    covers: 'POST /compact',
    name: 'compact an item',
    method: 'POST',
    path: () => '/compact',
    body: (n) => ({ model: 'm', input: [{ type: 'item_reference', id: n.item }] }),
  },
  {
    covers: 'POST /input_tokens',
    name: 'count',
    method: 'POST',
    path: () => '/input_tokens',
    body: (n) => ({ ...hello, previous_response_id: n.response }),
  },
  {
    covers: 'POST /input_tokens',
    name: 'count an item',
    method: 'POST',
    path: () => '/input_tokens',
    body: (n) => ({ model: 'm', input: [{ type: 'item_reference', id: n.item }] }),
  },
]
// ── and over a socket ──
export type Tell = {
  readonly covers: string
  readonly name: string
  frame(n: Named): Record<string, unknown>
  /** The maker is told the same, for the reason given. */ readonly alike?: string
}
export const tells: Tell[] = [
  { covers: 'response.create', name: 'continue', frame: (n) => ({ ...hello, previous_response_id: n.response }) },
  {
    covers: 'response.create',
    name: 'continue without storing',
    frame: (n) => ({ ...hello, store: false, previous_response_id: n.response }),
  },
  {
    covers: 'response.create',
    name: 'warm up',
    frame: (n) => ({ ...hello, generate: false, previous_response_id: n.response }),
  },
  {
    covers: 'response.create',
    name: 'compact',
    frame: (n) => ({ model: 'm', input: [{ type: 'compaction_trigger' }], previous_response_id: n.response }),
  },
  {
    covers: 'response.create',
    name: 'refer to an item',
    frame: (n) => ({ ...hello, input: [{ type: 'item_reference', id: n.item }] }),
  },
  {
    covers: 'response.steer',
    name: 'steer',
    frame: (n) => ({ previous_response_id: n.response, input: 'more' }),
    alike: 'steering works on the connection of the response only',
  },
  {
    covers: 'response.interrupt',
    name: 'interrupt',
    frame: (n) => ({ response_id: n.response }),
    alike: 'interrupting works on the connection of the response only',
  },
  {
    covers: 'response.append',
    name: 'append',
    frame: (n) => ({ response_id: n.response, input: [{ type: 'function_call_output', call_id: 'c', output: '' }] }),
    alike: 'appending works on the connection of the response only',
  },
  {
    covers: 'response.inject',
    name: 'inject',
    frame: (n) => ({ response_id: n.response, input: [] }),
    alike: 'no response waits for injected input',
  },
]
/** Frames that name nothing. */
export const nameless = new Set<string>()
