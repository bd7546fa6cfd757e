package danger

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is code whose string expressions were evaluated as far as that is simple:
// escapes, concatenation, joins, reversals, decoding, and variables that are assigned a
// string.
type source struct {
	// bare is the code, «3» instead of its third string, without comments.
	bare    string
	strings []string
	// ran are the strings that the language itself runs: backticks, qx, %x.
	ran []int
}

func (s *source) put(text string) string {
	s.strings = append(s.strings, text)
	return "«" + strconv.Itoa(len(s.strings)-1) + "»"
}

// scan takes a source apart.
func scan(language, text string) *source {
	s := &source{}
	var out strings.Builder
	r := []rune(text)
	hash := language == "python" || language == "perl" || language == "ruby" || language == "php" || language == "awk" || language == "tclsh" || language == "julia"
	slashes := language == "javascript" || language == "php" || language == "groovy"
	for i := 0; i < len(r); i++ {
		switch c := r[i]; {
		case c == '#' && hash && (i == 0 || r[i-1] != '$' && r[i-1] != '{' && r[i-1] != '&'):
			for i < len(r) && r[i] != '\n' {
				i++
			}
			out.WriteByte('\n')
		case c == '/' && slashes && i+1 < len(r) && r[i+1] == '/' && (i == 0 || r[i-1] != ':'):
			for i < len(r) && r[i] != '\n' {
				i++
			}
			out.WriteByte('\n')
		case c == '/' && slashes && i+1 < len(r) && r[i+1] == '*':
			for i += 2; i+1 < len(r) && (r[i] != '*' || r[i+1] != '/'); i++ {
			}
			i++
		case (c == '"' || c == '\'') && language == "python" && i+2 < len(r) && r[i+1] == c && r[i+2] == c:
			var b strings.Builder
			for i += 3; i < len(r) && !(i+2 < len(r) && r[i] == c && r[i+1] == c && r[i+2] == c); i++ {
				b.WriteRune(r[i])
			}
			i += 2
			out.WriteString(s.put(unescape(b.String())))
		case c == '"' || c == '\'' || c == '`':
			raw := i > 0 && (r[i-1] == 'r' || r[i-1] == 'R') && language == "python"
			var b strings.Builder
			for i++; i < len(r) && r[i] != c; i++ {
				if r[i] == '\\' && i+1 < len(r) {
					b.WriteRune(r[i])
					i++
				}
				b.WriteRune(r[i])
			}
			v := b.String()
			if !raw {
				v = unescape(v)
			}
			out.WriteString(s.put(v))
			if c == '`' && language != "javascript" {
				s.ran = append(s.ran, len(s.strings)-1)
			}
		case (language == "perl" && c == 'q' && i+1 < len(r) || language == "ruby" && c == '%') && quoteLike(r, i) > 0:
			n := quoteLike(r, i)
			open := r[i+n]
			closer := map[rune]rune{'(': ')', '{': '}', '[': ']', '<': '>'}[open]
			if closer == 0 {
				closer = open
			}
			kind := r[i+n-1]
			var b strings.Builder
			depth := 1
			for i += n + 1; i < len(r); i++ {
				if r[i] == open && closer != open {
					depth++
				} else if r[i] == closer {
					if depth--; depth == 0 {
						break
					}
				}
				b.WriteRune(r[i])
			}
			out.WriteString(s.put(b.String()))
			if kind == 'x' {
				s.ran = append(s.ran, len(s.strings)-1)
			} else if kind == 'w' || kind == 'W' {
				words := strings.Fields(b.String())
				for _, w := range words {
					out.WriteString("," + s.put(w))
				}
			}
		case c == '<' && language == "perl" && i+1 < len(r) && (r[i+1] == '/' || r[i+1] == '~'):
			var b strings.Builder
			for i++; i < len(r) && r[i] != '>' && r[i] != '\n'; i++ {
				b.WriteRune(r[i])
			}
			out.WriteString("glob(" + s.put(b.String()) + ")")
		case c == '«' || c == '»':
			out.WriteByte(' ')
		default:
			out.WriteRune(c)
		}
	}
	s.bare = out.String()
	s.workOut()
	return s
}

// quoteLike returns how long the q, qq, qw, qx or %x, %w before a delimiter is.
func quoteLike(r []rune, i int) int {
	if i > 0 && (r[i-1] == '_' || r[i-1] == '$' || r[i-1] == '@' || r[i-1] == '%' || r[i-1] >= 'a' && r[i-1] <= 'z' || r[i-1] >= 'A' && r[i-1] <= 'Z') {
		return 0
	}
	n := 1
	if i+n < len(r) && strings.ContainsRune("qwxWQ", r[i+n]) {
		n++
	}
	if i+n < len(r) && strings.ContainsRune("({[<|!/~", r[i+n]) && (r[i] == 'q' || n == 2) {
		return n
	}
	return 0
}

var escapes = compile(`\\(?:x([0-9a-fA-F]{2})|u\{?([0-9a-fA-F]{4})\}?|([0-7]{2,3})|(.))`)

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return escapes.ReplaceAllStringFunc(s, func(e string) string {
		m := escapes.FindStringSubmatch(e)
		for i, base := range []int{16, 16, 8} {
			if m[i+1] != "" {
				n, _ := strconv.ParseInt(m[i+1], base, 32)
				return string(rune(n))
			}
		}
		switch m[4] {
		case "n":
			return "\n"
		case "t":
			return "\t"
		}
		return m[4]
	})
}

type rewrite struct {
	// any are texts one of which is in every match of re; none for an expression that
	// matches two strings.
	any []string
	re  *regexp.Regexp
	fn  func(s *source, m []string) (string, bool)
}

func (s *source) at(i string) string {
	n, err := strconv.Atoi(i)
	if err != nil || n < 0 || n >= len(s.strings) {
		return ""
	}
	return s.strings[n]
}

const lit = `«(\d+)»`

var every = regexp.MustCompile(lit)

func fixed(text string) func(*source, []string) (string, bool) {
	return func(s *source, _ []string) (string, bool) { return s.put(text), true }
}

// rewrites work out what strings come to.
var rewrites = []rewrite{
	{list("b« f« r« u«"), regexp.MustCompile(`[bfru]{1,2}` + lit), func(s *source, m []string) (string, bool) { return "«" + m[1] + "»", true }},
	{list("chr( fromCharCode .chr"), regexp.MustCompile(`\bchr\(\s*(0x[0-9a-fA-F]+|\d+)\s*\)|\bString\.fromCharCode\(\s*(\d+)\s*\)|\b(\d+)\.chr\b`), func(s *source, m []string) (string, bool) {
		n, err := strconv.ParseInt(m[1]+m[2]+m[3], 0, 32)
		return s.put(string(rune(n))), err == nil
	}},
	{list("fromCharCode bytes( map( pack"), regexp.MustCompile(`\b(?:String\.fromCharCode|bytes)\(\s*\[?((?:\s*(?:0x[0-9a-fA-F]+|\d+)\s*,?)+)\]?\s*\)(?:\.decode\(\))?|\bmap\(\s*chr\s*,\s*\[((?:\s*(?:0x[0-9a-fA-F]+|\d+)\s*,?)+)\]\s*\)|\bpack\(?\s*«\d+»\s*,((?:\s*\d+\s*,?)+)\)?`), func(s *source, m []string) (string, bool) {
		var b strings.Builder
		for _, part := range strings.FieldsFunc(m[1]+m[2]+m[3], func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
			n, err := strconv.ParseInt(part, 0, 32)
			if err != nil {
				return "", false
			}
			b.WriteRune(rune(n))
		}
		return s.put(b.String()), b.Len() > 0
	}},
	{list("expanduser expand_path"), regexp.MustCompile(`\bos\.path\.expanduser\(\s*` + lit + `\s*\)|\bFile\.expand_path\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) { return s.put(tilde(s.at(m[1] + m[2]))), true }},
	{list("home HOME environ getenv ENV"), regexp.MustCompile(`\bPath\.home\(\)|\bos\.homedir\(\)|\bDir\.home\b|\$ENV\{HOME\}|\$ENV\{«\d+»\}|\bprocess\.env\.HOME\b|\bENV\[«\d+»\]|\bENVIRON\[«\d+»\]|\bos\.environ\[«\d+»\]|\bos\.getenv\(«\d+»\)|\bgetenv\(«\d+»\)`), func(s *source, m []string) (string, bool) {
		if i := strings.Index(m[0], "«"); i >= 0 && s.at(strings.Trim(m[0][i:], "«»]})")) != "HOME" {
			return "", false
		}
		return s.put("/workspace"), true
	}},
	{list("sep SEPARATOR"), regexp.MustCompile(`\bos\.(?:path\.)?sep\b|\bpath\.sep\b|\bFile::SEPARATOR\b|\bDIRECTORY_SEPARATOR\b|\bos\.path\.abspath\(\s*os\.sep\s*\)`), fixed("/")},
	{list("join resolve"), regexp.MustCompile(`\b(?:os\.path\.join|path\.join|path\.resolve|File\.join|posixpath\.join)\(\s*` + lit + `\s*,\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) {
		if strings.HasPrefix(s.at(m[2]), "/") {
			return s.put(s.at(m[2])), true
		}
		return s.put(strings.TrimRight(s.at(m[1]), "/") + "/" + s.at(m[2])), true
	}},
	{list("joinpath"), regexp.MustCompile(`(?:\w+\.)?` + lit + `\.joinpath\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) {
		return s.put(strings.TrimRight(s.at(m[1]), "/") + "/" + s.at(m[2])), true
	}},
	{list("/"), regexp.MustCompile(`(?:Path\()?` + lit + `\)?\s*/\s*` + lit), func(s *source, m []string) (string, bool) {
		return "Path(" + s.put(strings.TrimRight(s.at(m[1]), "/")+"/"+s.at(m[2])) + ")", true
	}},
	{nil, regexp.MustCompile(lit + `\s*(?:\+|\.\.|\.)?\s*` + lit), func(s *source, m []string) (string, bool) { return s.put(s.at(m[1]) + s.at(m[2])), true }},
	{list("::-1 reverse strrev"), regexp.MustCompile(lit + `\[::-1\]|` + lit + `\.reverse\b|\b(?:reverse|strrev)\(?\s*` + lit + `\)?|` + lit + `\.split\(«\d+»\)\.reverse\(\)\.join\(«\d+»\)`), func(s *source, m []string) (string, bool) {
		r := []rune(s.at(m[1] + m[2] + m[3] + m[4]))
		slices.Reverse(r)
		return s.put(string(r)), true
	}},
	{list("join"), regexp.MustCompile(lit + `\.(?:join\(\s*)[\[(]((?:\s*«\d+»\s*,?)+)[\])]\s*\)|[\[(]((?:\s*«\d+»\s*,?)+)[\])]\.join(?:\(\s*(?:` + lit + `)?\s*\))?`), func(s *source, m []string) (string, bool) {
		var parts []string
		for _, p := range every.FindAllStringSubmatch(m[2]+m[3], -1) {
			parts = append(parts, s.at(p[1]))
		}
		return s.put(strings.Join(parts, s.at(m[1]+m[4]))), true
	}},
	{list("join"), regexp.MustCompile(lit + `\.join\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) { return "«" + m[2] + "»", s.at(m[1]) == "" }},
	{list("replace gsub"), regexp.MustCompile(lit + `\.(?:replace|gsub|replaceAll)\(\s*` + lit + `\s*,\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) {
		return s.put(strings.ReplaceAll(s.at(m[1]), s.at(m[2]), s.at(m[3]))), s.at(m[2]) != ""
	}},
	{list("64 atob Buffer unpack"), regexp.MustCompile(`\b(?:base64\.(?:b64decode|urlsafe_b64decode|standard_b64decode|decodebytes)|b64decode|decode_base64|base64_decode|atob|Base64\.(?:strict_|urlsafe_)?decode64|decode64)\(\s*` + lit + `\s*\)|\bBuffer\.from\(\s*` + lit + `\s*,\s*«\d+»\s*\)|` + lit + `\.unpack1?\(?\s*«\d+»\)?`), func(s *source, m []string) (string, bool) {
		text := strings.Join(strings.Fields(s.at(m[1]+m[2]+m[3])), "")
		data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "="))
		if hexed, herr := hex.DecodeString(text); m[2] != "" && herr == nil {
			data, err = hexed, nil
		}
		return s.put(string(data)), err == nil && len(data) > 0
	}},
	{list("hex decode pack"), regexp.MustCompile(`\b(?:bytes\.fromhex|bytearray\.fromhex|binascii\.unhexlify|unhexlify|hex2bin|codecs\.decode)\(\s*` + lit + `\s*(?:,\s*«(\d+)»\s*)?\)|\[` + lit + `\]\.pack\(?\s*«\d+»\)?|\bpack\(?\s*«\d+»\s*,\s*` + lit + `\)?`), func(s *source, m []string) (string, bool) {
		text := s.at(m[1] + m[3] + m[4])
		if strings.Contains(s.at(m[2]), "rot") {
			return s.put(rot13(text)), true
		}
		data, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		return s.put(string(data)), err == nil
	}},
	{list("str_rot13"), regexp.MustCompile(`\bstr_rot13\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) { return s.put(rot13(s.at(m[1]))), true }},
	{list("."), regexp.MustCompile(lit + `\.(?:decode|encode|toString|to_s|strip|trim|chomp|rstrip|lower|dup|freeze)\(\s*(?:«\d+»)?\s*\)`), func(s *source, m []string) (string, bool) { return "«" + m[1] + "»", true }},
	{list(".decode .toString"), regexp.MustCompile(`\(\s*` + lit + `\s*\)\s*\.(?:decode|toString)`), func(s *source, m []string) (string, bool) { return "«" + m[1] + "».decode", true }},
	{list("require"), regexp.MustCompile(`\brequire\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) {
		name := strings.TrimPrefix(s.at(m[1]), "node:")
		return name, slices.Contains([]string{"fs", "http", "https", "net", "child_process", "os", "path", "vm"}, name)
	}},
	{list("__import__ import_module"), regexp.MustCompile(`\b__import__\(\s*` + lit + `\s*\)|\bimportlib\.import_module\(\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) { return s.at(m[1] + m[2]), ident(s.at(m[1] + m[2])) }},
	{list("getattr"), regexp.MustCompile(`\bgetattr\(\s*([\w.]+)\s*,\s*` + lit + `\s*\)`), func(s *source, m []string) (string, bool) { return m[1] + "." + s.at(m[2]), ident(s.at(m[2])) }},
	{list("require"), regexp.MustCompile(`\brequire\(\s*` + lit + `\s*\)\s*\[\s*` + lit + `\s*\]`), func(s *source, m []string) (string, bool) { return s.at(m[1]) + "." + s.at(m[2]), ident(s.at(m[2])) }},
	{list("["), regexp.MustCompile(`\b(\w+)\s*\[\s*` + lit + `\s*\]\s*\(`), func(s *source, m []string) (string, bool) { return m[1] + "." + s.at(m[2]) + "(", ident(s.at(m[2])) }},
	{list("send method"), regexp.MustCompile(`\.(?:send|public_send|__send__|method)\(?\s*:(\w+)\s*[,)]\s*`), func(s *source, m []string) (string, bool) { return "." + m[1] + "(", ident(m[1]) }},
	{list("% format sprintf"), regexp.MustCompile(lit + `\s*%\s*\(?\s*((?:«\d+»\s*,?\s*)+)\)?|` + lit + `\.format\(\s*((?:«\d+»\s*,?\s*)+)\)|\b(?:sprintf|format)\(\s*` + lit + `\s*,\s*((?:«\d+»\s*,?\s*)+)\)`), func(s *source, m []string) (string, bool) {
		return s.formatted(s.at(m[1]+m[3]+m[5]), m[2]+m[4]+m[6])
	}},
	{list("send method"), regexp.MustCompile(`\.(?:send|public_send|__send__|method)\(?\s*(?::|` + lit + `\s*,)`), func(s *source, m []string) (string, bool) {
		return "." + s.at(m[1]) + "(", m[1] != "" && ident(s.at(m[1]))
	}},
	{list("vars __dict__"), regexp.MustCompile(`\b(?:vars\((\w+)\)|(\w+)\.__dict__)\[\s*` + lit + `\s*\]`), func(s *source, m []string) (string, bool) { return m[1] + m[2] + "." + s.at(m[3]), ident(s.at(m[3])) }},
}

var places = compile(`%[-+ 0-9.]*[sdr]|\{\d*(?:![rs])?\}`)

// formatted returns a format with its placeholders replaced by the strings that args
// names, and whether it has placeholders.
func (s *source) formatted(format, args string) (string, bool) {
	words, i := numbers(args), 0
	text := places.ReplaceAllStringFunc(format, func(p string) string {
		n := i
		i++
		if len(p) > 2 && p[0] == '{' && p[1] >= '0' && p[1] <= '9' {
			n = int(p[1] - '0')
		}
		if n < len(words) {
			return s.at(words[n])
		}
		return p
	})
	return s.put(text), i > 0
}

func list(s string) []string { return strings.Fields(s) }

func ident(s string) bool { return identifier.MatchString(s) }

var identifier = compile(`^[A-Za-z_][\w.:]*$`)

func rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

var (
	assigned = compile(`(?m)(?:^|[;{\n(]|\b(?:my|const|let|var|local)\b)\s*[$@]?([A-Za-z_]\w*)\s*=\s*«(\d+)»\s*(?:;|$|\n|\))`)
	imported = compile(`(?:\bimport\s+|,\s*)([\w.]+)\s+as\s+(\w+)|(?m)(?:^|[;\n]|\b(?:const|let|var)\b)\s*(\w+)\s*=\s*(os|subprocess|shutil|socket|fs|https?|net|child_process|vm|os\.system|os\.remove|os\.unlink|shutil\.rmtree|subprocess\.\w+|eval|exec|require\(«\d+»\)(?:\.\w+)?)\s*(?:;|$|\n)`)
	unpacked = compile(`\{([^{}]*)\}\s*=\s*(?:child_process|fs|net)\b`)
	froms    = compile(`\bfrom\s+(os|subprocess|shutil|pty)\s+import\s+(\w+)\s+as\s+(\w+)`)
)

// workOut puts what strings come to in their places until nothing changes.
func (s *source) workOut() {
	const rounds, most = 12, 5000
	named := map[string]bool{}
	for range rounds {
		before := s.bare
		for _, rw := range rewrites {
			if len(s.strings) > most {
				return
			}
			if len(rw.any) == 0 && strings.Count(s.bare, "«") < 2 || len(rw.any) > 0 && !slices.ContainsFunc(rw.any, func(part string) bool { return strings.Contains(s.bare, part) }) {
				continue
			}
			s.bare = rw.re.ReplaceAllStringFunc(s.bare, func(text string) string {
				if out, ok := rw.fn(s, rw.re.FindStringSubmatch(text)); ok {
					return out
				}
				return text
			})
		}
		for _, m := range assigned.FindAllStringSubmatch(s.bare, 20) {
			if !named[m[1]] && s.at(m[2]) != "" && !strings.Contains(strings.ReplaceAll(s.bare, " ", ""), m[1]+"+=") {
				named[m[1]] = true
				s.replace(m[1], "«"+m[2]+"»")
			}
		}
		for _, m := range imported.FindAllStringSubmatch(s.bare, 20) {
			name, to := m[2]+m[3], m[1]+m[4]
			if strings.HasPrefix(to, "require(") {
				i := strings.Index(to, "«")
				j := strings.Index(to, "»")
				to = s.at(to[i+len("«"):j]) + to[strings.Index(to, ")")+1:]
				to = strings.TrimPrefix(to, "child_process.")
			}
			if !named[name] && len(name) > 0 && name != to {
				named[name] = true
				s.replace(name, to)
			}
		}
		for _, m := range unpacked.FindAllStringSubmatch(s.bare, 20) {
			for pair := range strings.SplitSeq(m[1], ",") {
				of, name, ok := strings.Cut(pair, ":")
				if of, name = strings.TrimSpace(of), strings.TrimSpace(name); ok && ident(of) && ident(name) && !named[name] && of != name {
					named[name] = true
					s.replace(name, of)
				}
			}
		}
		for _, m := range froms.FindAllStringSubmatch(s.bare, 20) {
			if !named[m[3]] {
				named[m[3]] = true
				s.replace(m[3], m[1]+"."+m[2])
			}
		}
		if s.bare == before || len(s.bare) > 1<<20 {
			return
		}
	}
}

// replace puts to instead of each use of a name.
func (s *source) replace(name, to string) {
	re := regexp.MustCompile(`(^|[^\w.$@])[$@]?` + regexp.QuoteMeta(name) + `\b(\s*=[^=])?`)
	s.bare = re.ReplaceAllStringFunc(s.bare, func(text string) string {
		m := re.FindStringSubmatch(text)
		if m[2] != "" {
			return text
		}
		return m[1] + to
	})
}

// region is the arguments of a call.
type region struct {
	call, text, after string
	// reads reports that the call belongs to a reader of data, such as json.load.
	reads bool
}

var dataReaders = compile(`(?i)\b(?:json5?|orjson|ujson|simplejson|toml|tomllib|tomli|csv|xml|plist|plistlib|ini|config|configparser|yaml|msgpack|cbor2?|np|numpy|torch|image|dotenv|etree|et|minidom)\.(?:safe_|full_|unsafe_)?$`)

// narrow reports whether a walk in the code looks for something that it names, as
// find -name does.
func (s *source) narrow() bool {
	for _, region := range s.arguments(seeks) {
		for _, p := range region.strings(s) {
			if last := p[strings.LastIndexByte(p, '/')+1:]; wild(last) && len(strings.Trim(last, "*?.[]!^-")) >= 2 {
				return true
			}
		}
	}
	return false
}

var seeks = compile(`\b(?:rglob|glob|iglob|Dir\.glob|fnmatch)\b`)

// arguments returns the arguments of the calls that a pattern finds, to the
// closing bracket or the end of the statement.
func (s *source) arguments(calls *expression) (out []region) {
	for _, loc := range calls.FindAllStringIndex(s.bare, 200) {
		rest := s.bare[loc[1]:]
		call := strings.TrimRight(s.bare[loc[0]:loc[1]], "([ ")
		depth, end := 0, len(rest)
		if strings.HasSuffix(s.bare[loc[0]:loc[1]], "(") || strings.HasSuffix(s.bare[loc[0]:loc[1]], "[") {
			depth = 1
		}
		inBrackets := depth > 0
	scan:
		for i, c := range rest {
			switch c {
			case '(', '[':
				depth++
				inBrackets = true
			case ')', ']':
				if depth--; depth <= 0 && (inBrackets || depth < 0) {
					end = i
					break scan
				}
			case ';', '\n':
				if depth <= 0 {
					end = i
					break scan
				}
			}
		}
		after := rest[end:]
		one := region{call: call, text: rest[:end], after: after[:min(len(after), 80)]}
		one.reads = strings.HasPrefix(call, "load") && dataReaders.MatchString(s.bare[max(0, loc[0]-40):loc[0]])
		out = append(out, one)
	}
	return out
}

// strings are those among the arguments.
func (r region) strings(s *source) (out []string) {
	for _, n := range numbers(r.text) {
		out = append(out, s.at(n))
	}
	return out
}

// numbers returns which strings a text of bare code has: what lit finds, up to 50.
func numbers(text string) (out []string) {
	for len(out) < 50 {
		i := strings.Index(text, "«")
		if i < 0 {
			break
		}
		text = text[i+len("«"):]
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		if n > 0 && strings.HasPrefix(text[n:], "»") {
			out = append(out, text[:n])
			text = text[n+len("»"):]
		}
	}
	return out
}
