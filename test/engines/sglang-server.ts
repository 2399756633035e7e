// SGLang as its sources have it (0.5.23): events of /generate in both shapes, and sessions with a tree of requests whose
// context is cut at `offset`, so that a wrong session request gives another prompt here as it would there.
import type { Asked, Reply } from './token-server.ts'

type Node = { readonly context: readonly number[]; readonly output: readonly number[] }
type SessionParams = { id: string; rid?: string; offset?: number }

export class SglangModel {
  /** Nodes of every open session, by rid. */
  readonly sessions = new Map<string, Map<string, Node>>()
  /** Every context that was generated from, as the server put it together. */
  readonly contexts: number[][] = []
  incremental = false
  version = '0.5.23'
  ranks = 1
  /** Cut from the beginning of new ids in a session. */
  bos: number | undefined = undefined
  /** Ids that speculative decoding leaves behind the stop token, which the client never sees. */
  behind: readonly number[] = []
  /** Tokens an event. */
  step = 1
  bytes: number | undefined = undefined
  /** Image tokens that stand for one picture, and the id of its placeholder and of each of them. */
  pictureTokens = 4
  placeholder = 99
  stop = 9
  say: (context: readonly number[]) => readonly number[] = () => [11, 12, 13, 9]

  /** Undefined for paths that are not the server's. */
  answer({ path, body }: Asked): Reply {
    switch (path) {
      case '/generate':
        return this.#generate(body)
      case '/open_session': {
        const id = String(body['session_id'])
        if (this.sessions.has(id)) return { status: 400, json: { error: { message: 'Failed to open the session.' } } }
        this.sessions.set(id, new Map())
        return { json: id }
      }
      case '/close_session':
        this.sessions.delete(String(body['session_id']))
        return { json: '' }
      case '/server_info':
        return { json: { version: this.version, dp_size: this.ranks, tokenizer_path: '/m' } }
      case '/model_info':
        return { json: { model_path: 'Qwen/Qwen3-8B', tokenizer_path: '/m/Qwen3-8B', is_generation: true } }
      case '/v1/models':
        return { json: { object: 'list', data: [{ id: 'q', root: 'q', parent: null, max_model_len: 4096 }] } }
      case '/tokenize': {
        const texts = body['prompt'] as string[]
        const tokens = texts.map((t) => Array.from(t, (c) => c.charCodeAt(0)))
        return { json: { tokens, count: tokens.map((t) => t.length), max_model_len: 4096 } }
      }
      default:
        return { status: 404, json: { detail: 'Not Found' } }
    }
  }
  #generate(body: Record<string, unknown>): Reply {
    const rid = String(body['rid'])
    const ids = body['input_ids'] as number[]
    const params = body['session_params'] as SessionParams | undefined
    const most = (body['sampling_params'] as { max_new_tokens: number | null }).max_new_tokens ?? 1000
    let context: readonly number[] = ids
    let nodes: Map<string, Node> | undefined
    if (params) {
      nodes = this.sessions.get(params.id)
      if (!nodes) return abort(rid, `Invalid request: session id ${params.id} does not exist`)
      if (params.rid !== undefined) {
        const last = nodes.get(params.rid)
        if (!last) return abort(rid, 'Invalid request session id')
        const kept = [...last.context, ...last.output]
        const fresh = ids[0] === this.bos ? ids.slice(1) : ids
        context = [...(params.offset ? kept.slice(0, params.offset) : kept), ...fresh]
      }
    }
    const images = body['image_data'] as string[] | undefined
    if (images) {
      const places = context.filter((id) => id === this.placeholder).length
      if (places !== images.length) return abort(rid, `prompt has ${places} placeholders but ${images.length} images`)
      const expanded = Array<number>(this.pictureTokens).fill(this.placeholder)
      context = context.flatMap((id) => (id === this.placeholder ? expanded : id))
    }
    const output = this.say(context).slice(0, most)
    this.contexts.push([...context])
    nodes?.set(rid, { context, output: [...output, ...this.behind] })
    const cut = output.length > 0 && output.at(-1) !== this.stop
    const events: Record<string, unknown>[] = []
    for (let n = Math.min(this.step, output.length); ; n = Math.min(n + this.step, output.length)) {
      const done = n >= output.length
      const reason =
        cut || output.length === 0 ? { type: 'length', length: most } : { type: 'stop', matched: this.stop }
      const from = this.incremental ? Math.max(0, events.length * this.step) : 0
      events.push({
        text: 'x'.repeat(n - from),
        output_ids: output.slice(from, n),
        meta_info: {
          id: rid,
          finish_reason: done ? reason : null,
          prompt_tokens: context.length,
          weight_version: 'default',
          num_retractions: 0,
          reasoning_tokens: 0,
          completion_tokens: n,
          cached_tokens: Math.max(0, context.length - 1),
        },
      })
      if (done) break
    }
    return { events, ...(this.bytes === undefined ? {} : { bytes: this.bytes }) }
  }
}
/** How a refusal of the scheduler comes: HTTP 200, one event, a prompt of one token. */
export function abort(rid: string, message: string, status = 400): Reply {
  const finish = { type: 'abort', message, status_code: status, err_type: 'BadRequestError' }
  const meta = { id: rid, finish_reason: finish, prompt_tokens: 1, completion_tokens: 0, cached_tokens: 0 }
  return { events: [{ text: '', output_ids: [], meta_info: meta }] }
}
