// The client's public entry: `continuo/client`.
export { connect, Connection, type Lane } from './connection.ts'
export { socketUrl, type ConnectOptions, type ReconnectOptions } from './connect-options.ts'
export {
  Cancelled,
  ClientError,
  ConnectionLost,
  RequestRejected,
  SlowConsumer,
  Unreachable,
  UpgradeRefused,
} from './failures.ts'
export { createFetch, type FetchOptions, type SocketFetch } from './fetch.ts'
export type { Answer, BufferLimits, Call, CallOptions } from './flight.ts'
export type { CreateBody } from './history.ts'
export type { ServerEvent } from './frame.ts'
export { runAgent, AgentFailed, type AgentEvent, type AgentOptions, type AgentResult, type ToolCall } from './agent.ts'
export { localTools, type LocalTool, type LocalToolOptions } from './tools.ts'
