// The terminals that `%import common.NAME` names in Lark, as regular expressions. The names and what they match are
// Lark's; where Lark looks behind, an equal expression without it stands here.

const digits = '[0-9]+'
const exponent = `[eE][+-]?${digits}`
const decimal = `(?:${digits}\\.[0-9]*|\\.${digits})`
const float = `(?:${digits}${exponent}|${decimal}(?:${exponent})?)`

export const commonTerminals: ReadonlyMap<string, string> = new Map([
  ['DIGIT', '[0-9]'],
  ['HEXDIGIT', '[0-9A-Fa-f]'],
  ['INT', digits],
  ['SIGNED_INT', `[+-]?${digits}`],
  ['DECIMAL', decimal],
  ['FLOAT', float],
  ['SIGNED_FLOAT', `[+-]?${float}`],
  ['NUMBER', `(?:${float}|${digits})`],
  ['SIGNED_NUMBER', `[+-]?(?:${float}|${digits})`],
  ['ESCAPED_STRING', '"(?:[^"\\\\\\n]|\\\\[^\\n])*"'],
  ['LCASE_LETTER', '[a-z]'],
  ['UCASE_LETTER', '[A-Z]'],
  ['LETTER', '[A-Za-z]'],
  ['WORD', '[A-Za-z]+'],
  ['CNAME', '[A-Za-z_][A-Za-z_0-9]*'],
  ['WS_INLINE', '[ \\t]+'],
  ['WS', '[ \\t\\f\\r\\n]+'],
  ['CR', '\\r'],
  ['LF', '\\n'],
  ['NEWLINE', '(?:\\r?\\n)+'],
  ['SH_COMMENT', '#[^\\n]*'],
  ['CPP_COMMENT', '//[^\\n]*'],
  ['C_COMMENT', '/\\*(?:[^*]|\\*+[^*/])*\\*+/'],
  ['SQL_COMMENT', '--[^\\n]*'],
])
