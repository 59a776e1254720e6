package filter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrSyntax is returned for a text that is no filter expression.
var ErrSyntax = errors.New("filter: syntax error")

// Bounds of an expression.
const (
	maxBytes   = 64 << 10
	maxDepth   = 100 // of conditions within conditions
	parameters = 100
)

// Expression is a parsed filter expression.
type Expression struct{ root node }

// String returns the expression, with all its brackets.
func (e *Expression) String() string { return e.root.String() }

type node interface{ String() string }

type (
	both    struct{ a, b node }
	either  struct{ a, b node }
	negated struct{ of node }
	compare struct {
		left, right operand
		relation    relation
	}
	between struct {
		of        operand
		low, high operand
		outside   bool
	}
)

// relation is a comparison of two operands.
type relation uint8

const (
	equal relation = iota
	unequal
	less
	atMost
	greater
	atLeast
	like
)

var relations = [...]string{"=", "<>", "<", "<=", ">", ">=", "LIKE"}

// operandKind is what an operand is.
type operandKind uint8

const (
	member operandKind = iota
	text
	integer
	decimal
	truth
	parameter
)

// operand is a member or a value.
type operand struct {
	kind   operandKind
	text   string // of a member and of a text
	signed int64
	large  uint64 // the value of an integer beyond int64
	float  float64
	truth  bool
	number int // of a parameter
}

func (n both) String() string    { return "(" + n.a.String() + " AND " + n.b.String() + ")" }
func (n either) String() string  { return "(" + n.a.String() + " OR " + n.b.String() + ")" }
func (n negated) String() string { return "(NOT " + n.of.String() + ")" }
func (n compare) String() string {
	return n.left.String() + " " + relations[n.relation] + " " + n.right.String()
}

func (n between) String() string {
	not := ""
	if n.outside {
		not = " NOT"
	}
	return n.of.String() + not + " BETWEEN " + n.low.String() + " AND " + n.high.String()
}

func (o operand) String() string {
	switch o.kind {
	case text:
		return "'" + strings.ReplaceAll(o.text, "'", "''") + "'"
	case integer:
		if o.large > 0 {
			return strconv.FormatUint(o.large, 10)
		}
		return strconv.FormatInt(o.signed, 10)
	case decimal:
		s := strconv.FormatFloat(o.float, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	case truth:
		return strings.ToUpper(strconv.FormatBool(o.truth))
	case parameter:
		return "%" + strconv.Itoa(o.number)
	}
	return o.text
}

// Parse parses an expression.
func Parse(expression string) (*Expression, error) {
	p := &parser{in: expression}
	if len(expression) > maxBytes || !utf8.ValidString(expression) {
		return nil, fmt.Errorf("%w: %d bytes, of at most %d of UTF-8", ErrSyntax, len(expression), maxBytes)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	n, err := p.disjunction(0)
	if err == nil && p.token.kind != end {
		err = p.wrong("AND, OR or the end")
	}
	if err != nil {
		return nil, err
	}
	return &Expression{n}, nil
}

type tokenKind uint8

const (
	end tokenKind = iota
	word
	value    // a text, a number or a parameter
	operator // a relation
	open
	closed
)

type token struct {
	kind     tokenKind
	word     string // in capital letters
	operand  operand
	relation relation
	at       int
}

type parser struct {
	in    string
	pos   int
	token token
}

func (p *parser) wrong(wanted string) error {
	return fmt.Errorf("%w: %s is missing at byte %d", ErrSyntax, wanted, p.token.at)
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

func (p *parser) peek(n int) byte {
	if p.pos+n < len(p.in) {
		return p.in[p.pos+n]
	}
	return 0
}

// next reads a token.
func (p *parser) next() (err error) {
	for p.pos < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.pos]) >= 0 {
		p.pos++
	}
	p.token = token{at: p.pos}
	if p.pos == len(p.in) {
		return nil
	}
	switch c := p.in[p.pos]; {
	case c == '(' || c == ')':
		p.pos++
		p.token.kind = map[byte]tokenKind{'(': open, ')': closed}[c]
	case strings.IndexByte("=<>!", c) >= 0:
		return p.operator()
	case letter(c):
		p.words()
	case c == '\'':
		return p.quoted()
	case c == '%':
		start := p.pos + 1
		for p.pos++; digit(p.peek(0)); p.pos++ {
		}
		n, err := strconv.Atoi(p.in[start:p.pos])
		if err != nil || n >= parameters {
			return p.wrong(fmt.Sprintf("the number of a parameter, from 0 to %d,", parameters-1))
		}
		p.token.kind, p.token.operand = value, operand{kind: parameter, number: n}
	case digit(c) || c == '-' || c == '+' || c == '.':
		return p.number()
	default:
		return p.wrong("a condition")
	}
	return nil
}

func (p *parser) operator() error {
	p.token.kind = operator
	for _, o := range []struct {
		text string
		is   relation
	}{{"<>", unequal}, {"!=", unequal}, {"<=", atMost}, {">=", atLeast}, {"=", equal}, {"<", less}, {">", greater}} {
		if strings.HasPrefix(p.in[p.pos:], o.text) {
			p.pos += len(o.text)
			p.token.relation = o.is
			return nil
		}
	}
	return p.wrong("a relation")
}

// words reads a word of the grammar or the name of a member.
func (p *parser) words() {
	start := p.pos
	for letter(p.peek(0)) || digit(p.peek(0)) || p.peek(0) == '.' && letter(p.peek(1)) {
		p.pos++
	}
	p.token.operand = operand{kind: member, text: p.in[start:p.pos]}
	p.token.kind, p.token.word = word, strings.ToUpper(p.in[start:p.pos])
	switch p.token.word {
	case "TRUE", "FALSE":
		p.token.kind, p.token.operand = value, operand{kind: truth, truth: p.token.word == "TRUE"}
	case "LIKE":
		p.token.kind, p.token.relation = operator, like
	}
}

func (p *parser) quoted() error {
	var b strings.Builder
	for p.pos++; p.pos < len(p.in); p.pos++ {
		if p.in[p.pos] != '\'' {
			b.WriteByte(p.in[p.pos])
			continue
		}
		if p.peek(1) != '\'' {
			p.pos++
			p.token.kind, p.token.operand = value, operand{kind: text, text: b.String()}
			return nil
		}
		b.WriteByte('\'')
		p.pos++
	}
	return p.wrong("the second quotation mark of the text")
}

func (p *parser) number() error {
	start := p.pos
	if c := p.peek(0); c == '-' || c == '+' {
		p.pos++
	}
	hex := p.peek(0) == '0' && p.peek(1)|0x20 == 'x'
	if hex {
		p.pos += 2
	}
	for {
		c := p.peek(0)
		exponent := !hex && (c == '-' || c == '+') && p.in[p.pos-1]|0x20 == 'e'
		if !digit(c) && !letter(c) && c != '.' && !exponent {
			break
		}
		p.pos++
	}
	o, err := numeral(p.in[start:p.pos])
	if err != nil {
		return p.wrong("a number")
	}
	p.token.kind, p.token.operand = value, o
	return nil
}

// numeral is the value of a number's text.
func numeral(s string) (o operand, err error) {
	if strings.Contains(s, "_") {
		return o, strconv.ErrSyntax
	}
	if strings.ContainsAny(s, ".") || !strings.ContainsAny(s, "xX") && strings.ContainsAny(s, "eE") {
		o.kind = decimal
		o.float, err = strconv.ParseFloat(s, 64)
		return o, err
	}
	o.kind = integer
	base := strings.TrimLeft(s, "+-")
	radix := 10
	if strings.HasPrefix(strings.ToLower(base), "0x") {
		base, radix = base[2:], 16
	}
	n, err := strconv.ParseUint(base, radix, 64)
	switch {
	case err != nil:
	case s[0] == '-' && n <= 1<<63:
		o.signed = -int64(n)
	case s[0] == '-':
		err = strconv.ErrRange
	case n >= 1<<63:
		o.large = n
	default:
		o.signed = int64(n)
	}
	return o, err
}

func (p *parser) disjunction(depth int) (node, error) {
	return p.chain("OR", depth, p.conjunction, func(a, b node) node { return either{a, b} })
}

func (p *parser) conjunction(depth int) (node, error) {
	return p.chain("AND", depth, p.negation, func(a, b node) node { return both{a, b} })
}

// chain parses conditions with a word between them, which bind to the left. Each makes the
// expression one deeper.
func (p *parser) chain(between string, depth int, part func(int) (node, error), join func(a, b node) node) (node, error) {
	n, err := part(depth)
	for ; err == nil && p.token.kind == word && p.token.word == between; depth++ {
		if err = p.next(); err != nil {
			break
		}
		var right node
		if right, err = part(depth + 1); err == nil {
			n = join(n, right)
		}
	}
	return n, err
}

func (p *parser) negation(depth int) (node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: more than %d conditions within each other or side by side", ErrSyntax, maxDepth)
	}
	switch {
	case p.token.kind == word && p.token.word == "NOT":
		if err := p.next(); err != nil {
			return nil, err
		}
		n, err := p.negation(depth + 1)
		return negated{n}, err
	case p.token.kind == open:
		if err := p.next(); err != nil {
			return nil, err
		}
		n, err := p.disjunction(depth + 1)
		if err == nil && p.token.kind != closed {
			err = p.wrong("a closing bracket")
		}
		if err != nil {
			return nil, err
		}
		return n, p.next()
	}
	return p.predicate()
}

// operand takes a member or a value.
func (p *parser) operand() (o operand, err error) {
	switch {
	case p.token.kind == value:
	case p.token.kind == word:
		switch p.token.word {
		case "AND", "OR", "NOT", "BETWEEN":
			return o, p.wrong("a member or a value")
		}
	default:
		return o, p.wrong("a member or a value")
	}
	o = p.token.operand
	return o, p.next()
}

func (p *parser) predicate() (node, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	not := p.token.kind == word && p.token.word == "NOT"
	if not {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if p.token.kind == word && p.token.word == "BETWEEN" {
		return p.between(left, not)
	}
	if p.token.kind != operator || not {
		return nil, p.wrong("a relation")
	}
	c := compare{left: left, relation: p.token.relation}
	if err = p.next(); err != nil {
		return nil, err
	}
	if c.right, err = p.operand(); err != nil {
		return nil, err
	}
	if c.left.kind != member && c.right.kind != member {
		return nil, fmt.Errorf("%w: %v compares no member", ErrSyntax, c)
	}
	return c, nil
}

func (p *parser) between(of operand, not bool) (n node, err error) {
	b := between{of: of, outside: not}
	if of.kind != member {
		return nil, fmt.Errorf("%w: %v is no member, and cannot lie between values", ErrSyntax, of)
	}
	if err = p.next(); err != nil {
		return nil, err
	}
	if b.low, err = p.operand(); err != nil {
		return nil, err
	}
	if p.token.kind != word || p.token.word != "AND" {
		return nil, p.wrong("AND")
	}
	if err = p.next(); err != nil {
		return nil, err
	}
	if b.high, err = p.operand(); err == nil && (b.low.kind == member || b.high.kind == member) {
		err = fmt.Errorf("%w: %v lies between members, and not values", ErrSyntax, of)
	}
	return b, err
}
