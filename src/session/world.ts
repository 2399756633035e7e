// What a session needs of the server around it: one object, made by app.ts, the same for every connection.
import type { Principal, Seal } from '../turn/ports.ts'
import type { PrefixIndex } from '../turn/prefix-index.ts'
import type { Deps } from '../turn/run.ts'
import type { Limits, RolloutLimits } from './limits.ts'
import type { Live } from './live.ts'

export type World = Deps & {
  readonly limits: Limits
  readonly rollouts: RolloutLimits
  readonly seal: Seal
  readonly live: Live
  readonly index: PrefixIndex
  /** Is the key still valid, and may it use this model? Asked for every response. Throws invalid_api_key or permission_denied. */
  readonly authorise: (principal: Principal, model: string) => void
  /** One line in the server's log; fields by the allowlist of observe/log.ts. */
  readonly note: (what: string, fields: Readonly<Record<string, string | number | boolean>>) => void
  /** True from the moment the server is asked to stop: no response starts any more. */
  readonly draining: () => boolean
}
