// Every peer that there is an adapter for, and the order in which they are shown.
import { agenticApi } from './adapters/agentic-api.ts'
import { codexRelay } from './adapters/codex-relay.ts'
import { continuo } from './adapters/continuo.ts'
import { direct } from './adapters/direct.ts'
import { litellm } from './adapters/litellm.ts'
import { naive } from './adapters/naive.ts'
import { opencodex } from './adapters/opencodex.ts'
import { portkey } from './adapters/portkey.ts'
import type { Peer } from './peer.ts'

export const peers: readonly Peer[] = [continuo, direct, naive, litellm, agenticApi, portkey, codexRelay, opencodex]
