// What a connection can be told, and what it does when it is not told.
import type { BufferLimits } from './flight.ts'
import type { LinkOptions } from './link.ts'

export type ReconnectOptions = {
  /** Tries in a row without a single event before waiting calls fail. Default 5. */
  readonly attempts?: number
  /** First and longest wait in milliseconds; each wait is drawn from the upper half of its range. Defaults 250, 8000. */
  readonly initialMs?: number
  readonly maxMs?: number
}
export type ConnectOptions = {
  /** Base URL (`http://host/v1`) or the socket's own (`ws://host/v1/responses`). */
  readonly url: string
  readonly apiKey?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** False: a lost socket fails its calls; the next call still dials anew. */
  readonly reconnect?: ReconnectOptions | false
  /**
   * When a call may be sent again after its socket is lost. `before-output`: until its first event other than created,
   * in_progress, queued and keepalive came; its reader may then see `response.created` twice. `always`: also later, and
   * then a second `response.created` means that everything before it is void.
   */
  readonly resend?: 'before-output' | 'always'
  /** False: no `stream_id` is ever sent and calls run one after the other, for servers without lanes. */
  readonly lanes?: boolean
  /** False: settings are sent and echoed each turn, also where the server offers to keep them. */
  readonly lean?: boolean
  /** Named lanes in all; OpenAI and Continuo allow 32 per socket. */
  readonly maxLanes?: number
  /** Calls that may wait for a socket or a lane. */
  readonly maxQueued?: number
  /** Unread events of one call. Defaults 131,072 events and 64 MiB. */
  readonly buffer?: Partial<BufferLimits>
  /** True: a gap in `sequence_number` counts as a lost connection. Default: only towards Continuo, which leaves none. */
  readonly strictNumbers?: boolean
} & Partial<Omit<LinkOptions, 'url' | 'headers'>>

/** The socket URL for a base URL or a socket URL. */
export function socketUrl(url: string): string {
  const parsed = new URL(url)
  parsed.protocol = parsed.protocol === 'https:' || parsed.protocol === 'wss:' ? 'wss:' : 'ws:'
  if (!parsed.pathname.endsWith('/responses')) parsed.pathname = `${parsed.pathname.replace(/\/+$/, '')}/responses`
  parsed.hash = ''
  return parsed.href
}

/** What each socket of the connection is opened with. */
export function linkOptions(options: ConnectOptions): LinkOptions {
  return {
    url: socketUrl(options.url),
    headers: {
      'user-agent': 'continuo-client',
      ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
      ...options.headers,
    },
    compression: options.compression ?? true,
    handshakeMs: options.handshakeMs ?? 15_000,
    maxFrameBytes: options.maxFrameBytes ?? 67_108_864,
    quietMs: options.quietMs ?? 60_000,
    pongMs: options.pongMs ?? 10_000,
    conversations: options.conversations ?? 64,
  }
}
