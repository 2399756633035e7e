// Every bound of a connection and of the server around it, as plain numbers. config.ts holds the schema and defaults.

/** Times in milliseconds, sizes in bytes, shares from 0 to 1. */
export type Limits = {
  readonly websocket: {
    readonly enabled: boolean
    /** Share of sockets that are let in; the others get 426 and use HTTP. */
    readonly ramp: number
    readonly compression: 'off' | 'tight'
    /** Close a socket once idle after a failed or incomplete response: `auto` for clients that hang otherwise. */
    readonly closeAfterFailure: 'auto' | 'never' | 'always'
    readonly maxMessageBytes: number
    /** Bytes of messages that all sockets together may be receiving or holding in queues. */
    readonly maxHeldBytes: number
    readonly maxSockets: number
    /** Responses in flight per connection, named lanes per connection, waiting requests per connection. */
    readonly inFlight: number
    readonly namedLanes: number
    readonly queued: number
    /** Ended responses of a connection that can still be continued. */
    readonly continuable: number
    /** Memory that their conversations and settings may take, per connection. */
    readonly continuableBytes: number
    readonly pendingSteers: number
    readonly pingMs: number
    /** Without any byte for this long after a ping the peer is gone. */
    readonly pongMs: number
    /** 0: no limit. */
    readonly maxAgeMs: number
  }
  readonly http: {
    readonly maxBodyBytes: number
    /** Exact `Origin` values of browser pages that may open sockets. Requests without `Origin` are no browser's. */
    readonly origins: readonly string[]
    readonly headersMs: number
  }
  /** Silence after which a `keepalive` event is sent while a response runs or waits. */
  readonly keepaliveMs: number
  readonly detachGraceMs: number
  readonly slowReaderBytes: number
  readonly slowReaderMs: number
  /** Memory that the items of one conversation may take, estimated from above. */
  readonly conversationBytes: number
  /** Longest a turn may run, and the most text it may produce. */
  readonly turnMs: number
  readonly outputBytes: number
  readonly drainMs: number
  /** How long and in how many bytes the events of ended responses are kept, and the most one running response may hold. */
  readonly events: { readonly keepMs: number; readonly keepBytes: number; readonly perResponse: number }
  /** What is remembered of conversations that clients send whole again and again: see turn/prefix-index.ts. */
  readonly prefixes: { readonly keepBytes: number; readonly keepMs: number }
  /** Records waiting to be written before new `store: true` responses are turned away. */
  readonly unsettled: number
}

/** Of the experiment in rollout.ts. */
export type RolloutLimits = {
  readonly enabled: boolean
  /** Longest that a rollout waits for the answers to one round of calls. */
  readonly waitMs: number
  /** Most generations of one rollout. */
  readonly rounds: number
}
