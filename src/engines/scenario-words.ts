// Texts that look right for a property's name or a schema's format.

const words: Record<string, string> = {
  city: 'Berlin',
  location: 'Berlin',
  country: 'Germany',
  path: 'README.md',
  file: 'README.md',
  filepath: 'README.md',
  filename: 'README.md',
  targetfile: 'README.md',
  dir: '.',
  directory: '.',
  cwd: '.',
  workdir: '.',
  workingdirectory: '.',
  query: 'README',
  pattern: 'README',
  search: 'README',
  url: 'https://example.com/',
  description: 'Look at the folder',
  language: 'en',
}
const formats: Record<string, (salt: number) => string> = {
  'date-time': (n) => `2026-01-01T00:00:${String(n % 60).padStart(2, '0')}Z`,
  date: (n) => `2026-01-${String((n % 28) + 1).padStart(2, '0')}`,
  time: (n) => `12:00:${String(n % 60).padStart(2, '0')}Z`,
  duration: (n) => `PT${n + 1}M`,
  email: (n) => `user${n}@example.com`,
  'idn-email': (n) => `user${n}@example.com`,
  hostname: (n) => `host${n}.example.com`,
  'idn-hostname': (n) => `host${n}.example.com`,
  ipv4: (n) => `127.0.0.${(n % 250) + 1}`,
  ipv6: (n) => `::${(n + 1).toString(16)}`,
  uri: (n) => `https://example.com/${n}`,
  url: (n) => `https://example.com/${n}`,
  'uri-reference': (n) => `/${n}`,
  iri: (n) => `https://example.com/${n}`,
  uuid: (n) => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`,
  'json-pointer': (n) => `/${n}`,
  regex: (n) => `^a{${n}}$`,
}

/** A likely value for a property of this name. */
export const wordFor = (name: string): string => (words[name.toLowerCase().replace(/[^a-z]/g, '')] ?? name) || 'text'
/** A text of a JSON schema's `format`; `salt` gives another one. Undefined for formats that are not known. */
export const formatted = (format: unknown, salt: number): string | undefined =>
  typeof format === 'string' && Object.hasOwn(formats, format) ? formats[format]?.(salt) : undefined
