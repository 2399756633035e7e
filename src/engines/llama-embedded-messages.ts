// What the gateway and the process that runs llama.cpp say to each other. Ids travel as Uint32Array: the channel is
// opened with `serialization: 'advanced'`.

export type Sampling = {
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly seed: number
  readonly presence: number
  readonly frequency: number
}
/** Where a chain was computed last: a sequence, and the turn that it was left by. */
export type Place = { readonly slot: number; readonly turn: number }

export type Load = {
  readonly type: 'load'
  /** URL of the entry of node-llama-cpp. */
  readonly library: string
  readonly model: string
  readonly context: number | undefined
  readonly sequences: number
  readonly threads: number
  readonly flashAttention: 'auto' | 'on' | 'off'
  readonly gpu: 'auto' | 'off' | 'metal' | 'cuda' | 'vulkan'
  /** Turns that wait for a sequence. */
  readonly waiting: number
  /** Where sequences that make room are saved; undefined: they are forgotten. */
  readonly states: { readonly dir: string; readonly bytes: number } | undefined
}
export type Run = {
  readonly type: 'run'
  readonly job: number
  /** The whole prompt. */
  readonly ids: Uint32Array
  readonly place: Place | undefined
  readonly generate: boolean
  /** Whether the sequence may be saved when it makes room. */
  readonly mayStore: boolean
  /** Ids of output at most. */
  readonly most: number
  readonly stops: readonly number[]
  readonly sampling: Sampling
  /** GBNF that the output keeps to. */
  readonly grammar: string | undefined
  /** The output, id by id, that llama.cpp is to be held to. */
  readonly script: Uint32Array | undefined
}
export type Question =
  | { readonly what: 'describe' }
  | { readonly what: 'tokenize'; readonly texts: readonly string[] }
  | { readonly what: 'held' }
export type ToChild =
  | Load
  | Run
  | { readonly type: 'cancel' | 'pause' | 'resume'; readonly job: number }
  | ({ readonly type: 'ask'; readonly ask: number } & Question)

export type Counts = { readonly input: number; readonly cached: number; readonly output: number }
export type FromChild =
  | { readonly type: 'ready'; readonly context: number; readonly name: string }
  | { readonly type: 'unready'; readonly message: string }
  /** The job has a sequence; from here on it gives a sign of life for every batch. */
  | { readonly type: 'started'; readonly job: number; readonly place: Place }
  | { readonly type: 'alive'; readonly job: number }
  | { readonly type: 'tokens'; readonly job: number; readonly tokens: readonly number[] }
  | { readonly type: 'done'; readonly job: number; readonly finish: 'stop' | 'length'; readonly counts: Counts }
  | {
      readonly type: 'failed'
      readonly job: number
      readonly code: 'server_error' | 'server_is_overloaded' | 'unsupported_by_engine'
      readonly message: string
    }
  | { readonly type: 'answer'; readonly ask: number; readonly value: unknown }
  | { readonly type: 'no-answer'; readonly ask: number; readonly message: string }

/** What the sequences of a context hold, and how the batches were filled. */
export type Held = {
  /** Ids in the KV cache, by sequence. */
  readonly sequences: readonly Uint32Array[]
  /** Batches that llama.cpp computed, and those in which more than one sequence took part. */
  readonly batches: number
  readonly mixed: number
  /** Sequences that were saved to make room, and read back. */
  readonly saved: number
  readonly restored: number
}
/** What the GGUF file says of its model. */
export type Described = {
  readonly template: string | undefined
  readonly tokenizer: Record<string, unknown> | undefined
  readonly context: number
}
