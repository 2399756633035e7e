// How long a turn may still run. While it is held the time does not count: a rollout that waits for its client.
export class Deadline {
  readonly #over: () => void
  #left: number
  #since = performance.now()
  #timer: NodeJS.Timeout | undefined

  /** Runs at once; `over` is called when `ms` have passed. */
  constructor(ms: number, over: () => void) {
    this.#over = over
    this.#left = ms
    this.run()
  }
  hold(): void {
    clearTimeout(this.#timer)
    this.#left -= performance.now() - this.#since
  }
  run(): void {
    this.#since = performance.now()
    this.#timer = setTimeout(this.#over, Math.max(0, this.#left))
  }
  end(): void {
    clearTimeout(this.#timer)
  }
}
