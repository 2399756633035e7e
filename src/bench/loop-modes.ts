// The ways in which an agent loop can be run, in an order in which each differs from the one before in one cause.
import type { Rung } from './causes.ts'

export type Mode = {
  readonly name: ModeName
  readonly what: string
  /** How turns get there: a new connection each, one that is kept, or a socket. */
  readonly door: 'new' | 'kept' | 'socket'
  /** The whole history each turn, or only what is new behind `previous_response_id`. */
  readonly sends: 'all' | 'new'
  /** Of the server: whether it keeps anything between requests, and whose encoder and renderer it has. */
  readonly caches: boolean
  readonly encoder: 'own' | 'official'
  /** Settings are inherited and not echoed. */
  readonly lean?: true
  /** One long response. */
  readonly rollout?: true
  /** What makes it different from the mode before; none for those that stand beside the row. */
  readonly cause?: string
}
export const modeNames = [
  'http-new',
  'http-stateless',
  'http-own',
  'http-index',
  'http-chain',
  'ws-chain',
  'ws-lean',
  'rollout',
  'ws-full',
] as const
export type ModeName = (typeof modeNames)[number]

const stateless = { sends: 'all', caches: false } as const
const kept = { sends: 'new', caches: true, encoder: 'own' } as const
const table: Readonly<Record<ModeName, Omit<Mode, 'name'>>> = {
  'http-new': {
    ...stateless,
    what: 'HTTP, a new connection per call, full history, nothing kept, official Hugging Face tokenizer and template',
    door: 'new',
    encoder: 'official',
    cause: '',
  },
  'http-stateless': {
    ...stateless,
    what: 'the same over one kept connection: stateless HTTP as people run it today',
    door: 'kept',
    encoder: 'official',
    cause: 'connections',
  },
  'http-own': {
    ...stateless,
    what: "the same with Continuo's encoder and renderer",
    door: 'kept',
    encoder: 'own',
    cause: 'tokenizer and renderer',
  },
  'http-index': {
    what: 'the same with every cache: the history is found again, and only what is new is rendered and encoded',
    door: 'kept',
    sends: 'all',
    caches: true,
    encoder: 'own',
    cause: 'rendering and encoding history again',
  },
  'http-chain': {
    ...kept,
    what: 'HTTP on a kept connection with previous_response_id',
    door: 'kept',
    cause: 'sending and reading history',
  },
  'ws-chain': {
    ...kept,
    what: 'WebSocket with previous_response_id, settings sent and echoed each turn as the protocol says',
    door: 'socket',
    cause: 'frames in place of HTTP',
  },
  'ws-lean': {
    ...kept,
    what: 'WebSocket, lean turns: settings inherited and not echoed',
    door: 'socket',
    lean: true,
    cause: 'settings sent and echoed again',
  },
  rollout: {
    ...kept,
    what: 'one long response that waits for each tool (experimental)',
    door: 'socket',
    rollout: true,
    cause: 'one long response',
  },
  'ws-full': {
    what: 'WebSocket, full history each turn, every cache',
    door: 'socket',
    sends: 'all',
    caches: true,
    encoder: 'own',
  },
}
export const modeOf = (name: ModeName): Mode => ({ name, ...table[name] })
export const isMode = (name: string): name is ModeName => Object.hasOwn(table, name)

/** The row whose steps share the gain. */
export const rungs: readonly Rung[] = modeNames.flatMap((mode) => {
  const { cause } = table[mode]
  return cause === undefined ? [] : [{ mode, cause }]
})
