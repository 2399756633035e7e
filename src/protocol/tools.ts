// Tool definitions as clients send them, and the callable ones among them under the flat names that engines use.
// Hosted tool types are accepted, kept and echoed; only function and custom tools, alone or in a namespace, are offered.

/** Who called a tool: the model, or code that the model wrote. */
export type Caller = { type: 'direct' } | { type: 'program'; caller_id: string }
type Callers = ('direct' | 'programmatic')[] | null
export type FunctionTool = {
  type: 'function'
  name: string
  description?: string | null
  parameters: Record<string, unknown> | null
  strict: boolean | null
  async?: boolean
  defer_loading?: boolean
  allowed_callers?: Callers
  output_schema?: Record<string, unknown> | null
}
export type CustomFormat = { type: 'text' } | { type: 'grammar'; syntax: 'lark' | 'regex'; definition: string }
export type CustomTool = {
  type: 'custom'
  name: string
  description?: string
  format?: CustomFormat
  async?: boolean
  defer_loading?: boolean
  allowed_callers?: Callers
}
export type NamespaceTool = {
  type: 'namespace'
  name: string
  description: string
  tools: (FunctionTool | CustomTool)[]
}
/**
 * Kinds that other servers run, or clients without a definition. Only what the door checks has a type of its own; the
 * other fields are named after openai 7.59 and kept as they came.
 */
export type HostedTool =
  | { type: 'apply_patch' | 'shell'; allowed_callers?: unknown; environment?: unknown }
  | { type: 'code_interpreter'; container?: unknown; allowed_callers?: unknown }
  | { type: 'computer' | 'local_shell' | 'programmatic_tool_calling' }
  | { type: 'computer_use_preview'; display_height?: unknown; display_width?: unknown; environment?: unknown }
  | {
      type: 'file_search'
      vector_store_ids?: unknown
      filters?: unknown
      max_num_results?: unknown
      ranking_options?: unknown
    }
  | {
      type: 'image_generation'
      action?: unknown
      background?: unknown
      complexity?: unknown
      frame_count?: unknown
      frame_duration_ms?: unknown
      input_fidelity?: unknown
      input_image_mask?: unknown
      model?: unknown
      moderation?: unknown
      output_compression?: unknown
      output_format?: unknown
      partial_images?: unknown
      quality?: unknown
      size?: unknown
      svg?: unknown
    }
  | {
      type: 'mcp'
      server_label: string
      server_url?: unknown
      server_description?: unknown
      connector_id?: unknown
      tunnel_id?: unknown
      authorization?: unknown
      headers?: unknown
      allowed_tools?: unknown
      require_approval?: unknown
      allowed_callers?: unknown
      defer_loading?: unknown
    }
  | { type: 'tool_search'; execution?: unknown; description?: unknown; parameters?: unknown }
  | {
      type: 'web_search' | 'web_search_2025_08_26'
      external_web_access?: unknown
      filters?: unknown
      search_context_size?: unknown
      user_location?: unknown
    }
  | {
      type: 'web_search_preview' | 'web_search_preview_2025_03_11'
      search_content_types?: unknown
      search_context_size?: unknown
      user_location?: unknown
    }
export type Tool = FunctionTool | CustomTool | NamespaceTool | HostedTool

export type ToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { type: 'function'; name: string }
  | { type: 'custom'; name: string }
  | { type: 'allowed_tools'; mode: 'auto' | 'required'; tools: Record<string, unknown>[] }
  | { type: string }

/** A tool the model may call. `flat` is its name for engines that know only one level: unique, [A-Za-z0-9_-]{1,64}. */
export type Callable = {
  readonly flat: string
  readonly kind: 'function' | 'custom'
  readonly name: string
  readonly namespace: string | undefined
  readonly description: string
  /** JSON schema of the arguments object; for a custom tool `{input: string}`. */
  readonly parameters: Record<string, unknown>
  readonly strict: boolean
  readonly format: CustomFormat | undefined
}

const free = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** The callable tools of a turn: those the request brings and those the conversation brought, later ones winning. */
export function callables(...lists: (readonly Tool[])[]): Callable[] {
  const byPath = new Map<string, Callable>()
  const flatName = flatNames()
  const add = (tool: FunctionTool | CustomTool, namespace: NamespaceTool | undefined): void => {
    const path = namespace ? `${namespace.name}\0${tool.name}` : tool.name
    const flat = byPath.get(path)?.flat ?? flatName(namespace ? `${namespace.name}__${tool.name}` : tool.name)
    byPath.set(path, {
      flat,
      kind: tool.type,
      name: tool.name,
      namespace: namespace?.name,
      description: tool.description ?? '',
      parameters: tool.type === 'custom' ? free : (tool.parameters ?? { type: 'object', properties: {} }),
      strict: tool.type === 'function' && tool.strict === true,
      format: tool.type === 'custom' ? tool.format : undefined,
    })
  }
  for (const list of lists)
    for (const tool of list) {
      if (tool.type === 'function' || tool.type === 'custom') add(tool, undefined)
      else if (tool.type === 'namespace')
        // A namespace of a newer client may hold kinds that are not callable here.
        for (const inner of tool.tools) if (inner.type === 'function' || inner.type === 'custom') add(inner, tool)
    }
  return [...byPath.values()]
}

/** Gives names of at most 64 characters, each once. The next number of a name is kept: thousands may share a prefix. */
function flatNames(): (wanted: string) => string {
  const taken = new Set<string>()
  const next = new Map<string, number>()
  return (wanted) => {
    const clean = wanted.replace(/[^A-Za-z0-9_-]/g, '_') || 'tool'
    // A name that fits stays as it is; what was cut, or became another's name, gets a number.
    let name = clean.slice(0, 64)
    const stem = clean.slice(0, 56)
    let n = next.get(stem) ?? 2
    while (taken.has(name)) name = `${stem}_${n++}`
    next.set(stem, n)
    taken.add(name)
    return name
  }
}

/**
 * The callable tools that `tool_choice` leaves, and whether one of them must be called. None left although one must be:
 * the choice names a tool that is not there, or a hosted kind.
 */
export function chosen(tools: readonly Callable[], choice: ToolChoice): { tools: readonly Callable[]; must: boolean } {
  if (choice === 'auto') return { tools, must: false }
  if (choice === 'none') return { tools: [], must: false }
  if (choice === 'required') return { tools, must: true }
  if (choice.type === 'allowed_tools' && 'tools' in choice) {
    const allowed = choice.tools
    return { tools: tools.filter((tool) => allowed.some((one) => names(one, tool))), must: choice.mode === 'required' }
  }
  return { tools: tools.filter((tool) => names(choice, tool)), must: true }
}

/** Whether an entry of a choice means this tool: by kind and name, by its namespace, or as a whole namespace. */
function names(choice: Readonly<Record<string, unknown>>, tool: Callable): boolean {
  if (choice['type'] === 'namespace') return tool.namespace !== undefined && choice['name'] === tool.namespace
  if (choice['name'] !== tool.name || (choice['type'] !== undefined && choice['type'] !== tool.kind)) return false
  return choice['namespace'] === undefined || choice['namespace'] === tool.namespace
}
