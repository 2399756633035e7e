import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**'],
    pool: 'forks',
    // Much of a test is waiting for a socket: one more than the cores there are left.
    maxWorkers: 2,
    setupFiles: ['test/wire/violations.ts', 'test/seed.ts'],
    testTimeout: 20_000,
    hookTimeout: 60_000,
  },
})
