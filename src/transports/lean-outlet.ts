// In front of the outlet of a request that wants no echo: its envelopes leave out the settings, which the client knows.
// The log keeps them whole, for every other reader.
import type { ApiError } from '../protocol/errors.ts'
import { isInheritable } from '../protocol/lean.ts'
import type { Response } from '../protocol/response.ts'
import type { Entry, Outlet } from '../turn/ports.ts'

export class LeanOutlet implements Outlet {
  readonly #outlet: Outlet
  constructor(outlet: Outlet) {
    this.#outlet = outlet
  }
  send(entry: Entry): void {
    const { event } = entry
    this.#outlet.send(
      'response' in event
        ? { event, json: () => JSON.stringify({ ...event, response: withoutSettings(event.response) }) }
        : entry,
    )
  }
  flush(): Promise<void> | undefined {
    return this.#outlet.flush()
  }
  refuse(error: ApiError): void {
    this.#outlet.refuse(error)
  }
  end(error?: ApiError): void {
    this.#outlet.end(error)
  }
}

const withoutSettings = (response: Response): unknown =>
  Object.fromEntries(Object.entries(response).filter(([name]) => !isInheritable(name)))
