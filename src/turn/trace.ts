// When each stage of a turn was reached, for whoever listens on the channel. Free when nobody does.
import { channel } from 'node:diagnostics_channel'
import type { Encoded, Prompt } from './ports.ts'
import type { TokenRun } from './tokens.ts'

/** In the order a turn meets them; `refused` ends one that never got a response. */
export type Stage =
  | 'received'
  | 'parsed'
  | 'dequeued'
  | 'resolved'
  | 'admitted'
  | 'created'
  | 'called'
  | 'first'
  | 'gated'
  | 'generated'
  | 'kept'
  | 'finished'
  | 'settled'
  | 'refused'
/** `at` is `performance.now()` in milliseconds. */
export type Mark = { readonly id: string; readonly stage: Stage; readonly at: number }

/** The `node:diagnostics_channel` on which every `Mark` is published. */
export const turnChannel = 'continuo:turn'
const marks = channel(turnChannel)

export function mark(id: string, stage: Stage, at?: number): void {
  if (marks.hasSubscribers) marks.publish({ id, stage, at: at ?? performance.now() } satisfies Mark)
}
/** Now, but only if somebody will ask. */
export const stamp = (): number => (marks.hasSubscribers ? performance.now() : 0)

/** What was sent to an engine that takes tokens. `run`: its ids, valid while the turn runs. `broke`: where the prompt left the one that the engine has in its cache. */
export type PromptNote = {
  readonly id: string
  readonly tokens: number
  readonly run: TokenRun
  /** Ids that the engine knows from the turn before. */
  readonly common: number
  readonly broke: Encoded['broke']
}
/** The channel on which every `PromptNote` is published. */
export const promptChannel = 'continuo:prompt'
const notes = channel(promptChannel)

export function tellPrompt(id: string, encoded: Encoded | undefined, prompt: Prompt | undefined): void {
  if (encoded && prompt && notes.hasSubscribers)
    notes.publish({
      id,
      tokens: prompt.run.length,
      run: prompt.run,
      common: prompt.common,
      broke: encoded.broke,
    } satisfies PromptNote)
}

/** The channel on which codecs say how many ids they have just made of text: a number. */
export const encodedChannel = 'continuo:encoded'
const encodings = channel(encodedChannel)

export function tellEncoded(ids: number): void {
  if (encodings.hasSubscribers) encodings.publish(ids)
}
