package qos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// ErrProfile is wrapped by the errors of profiles.
var ErrProfile = errors.New("qos: profile")

// Profiles are named sets of policies, for topics, writers and readers.
type Profiles struct {
	file string
	all  []*profile
}

type profile struct {
	name  string
	line  int
	bases []*profile
	// given are the policies of all entities, and of each kind of them, in the order of the file.
	given  []given
	own    [3][]given
	status uint8 // of a walk along the bases: 1 on the way, 2 done
}

// given is a policy as the file has it.
type given struct {
	policy Policy
	line   int
	put    func(*Set)
}

// ParseProfiles reads profiles from JSON. The name of the file is for errors, which have the line,
// and say what is allowed there.
//
//	{
//	  "base":  {"RELIABILITY": {"kind": "RELIABLE", "max_blocking_time": "100ms"}},
//	  "alarm": {"extends": "base", "DURABILITY": "TRANSIENT", "reader": {"HISTORY": "KEEP_ALL"}, "writer": {"OWNERSHIP_STRENGTH": 5}}
//	}
//
// The policies and their fields have the names of DDS. A policy with one field, or of which the
// first one is enough, may be that value. Durations are texts such as "100ms", or "infinite". A
// policy of a profile is for all entities that it has an effect on, one in "topic", "writer" or
// "reader" for those. A profile that extends others, one name or a list of them, has their
// policies; where two of them have one, that of the later name counts. A policy that the profile
// gives replaces an inherited one as a whole. Each profile has to be a valid set for topics,
// writers and readers.
func ParseProfiles(file string, data []byte) (*Profiles, error) {
	p := &reading{file: file, data: data, in: json.NewDecoder(bytes.NewReader(data))}
	p.in.UseNumber()
	root, err := p.value()
	if err == nil {
		if _, more := p.in.Token(); more != io.EOF {
			err = p.wrong(p.line(), "the file must have one object with all profiles, and nothing after it")
		}
	}
	if err != nil {
		return nil, err
	}
	return p.profiles(root)
}

// Names returns the names of the profiles, in the order of the file.
func (p *Profiles) Names() (names []string) {
	for _, o := range p.all {
		names = append(names, o.name)
	}
	return names
}

// Set returns the policies of a profile for an entity.
func (p *Profiles) Set(name string, of Entity) (s Set, err error) {
	i := slices.IndexFunc(p.all, func(o *profile) bool { return o.name == name })
	if i < 0 {
		return s, fmt.Errorf("%w: %s has no profile %q; it has %s", ErrProfile, p.file, name, quoted(p.Names()))
	}
	p.all[i].apply(&s, of, nil)
	return s, nil
}

// apply puts the policies into a set, and notes the line of each.
func (o *profile) apply(s *Set, of Entity, lines map[Policy]int) {
	for _, b := range o.bases {
		b.apply(s, of, lines)
	}
	put := func(g given) {
		g.put(s)
		if lines != nil {
			lines[g.policy] = g.line
		}
	}
	for _, g := range o.given {
		if g.policy.appliesTo(of) {
			put(g)
		}
	}
	for _, g := range o.own[of] {
		put(g)
	}
}

// reading is a file that is being read.
type reading struct {
	file string
	data []byte
	in   *json.Decoder
}

// tree is a value of the file.
type tree struct {
	line   int
	scalar any // string, json.Number, bool or nil
	fields []field
	items  []*tree
	kind   byte // '{', '[' or 0
}

type field struct {
	name string
	*tree
}

func (p *reading) line() int {
	return 1 + bytes.Count(p.data[:min(int(p.in.InputOffset()), len(p.data))], []byte{'\n'})
}

func (p *reading) wrong(line int, format string, args ...any) error {
	return fmt.Errorf("%w: %s:%d: %s", ErrProfile, p.file, line, fmt.Sprintf(format, args...))
}

func (p *reading) token() (json.Token, error) {
	t, err := p.in.Token()
	if err == nil {
		return t, nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, p.wrong(1+bytes.Count(p.data[:min(int(syntax.Offset), len(p.data))], []byte{'\n'}), "%v", err)
	}
	return nil, p.wrong(p.line(), "%v", err)
}

// value reads one value.
func (p *reading) value() (*tree, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	t := &tree{line: p.line()}
	d, ok := token.(json.Delim)
	if !ok {
		t.scalar = token
		return t, nil
	}
	t.kind = byte(d)
	for p.in.More() {
		name, line := "", 0
		if d == '{' {
			if name, err = p.fieldName(t); err != nil {
				return nil, err
			}
			line = p.line()
		}
		v, err := p.value()
		switch {
		case err != nil:
			return nil, err
		case d == '{':
			v.line = line
			t.fields = append(t.fields, field{name, v})
		default:
			t.items = append(t.items, v)
		}
	}
	_, err = p.token() // the end
	return t, err
}

// fieldName reads the name of the next field of an object.
func (p *reading) fieldName(of *tree) (string, error) {
	key, err := p.token()
	if err != nil {
		return "", err
	}
	name := key.(string)
	if slices.ContainsFunc(of.fields, func(f field) bool { return f.name == name }) {
		return "", p.wrong(p.line(), "%q is there twice", name)
	}
	return name, nil
}

// profiles makes profiles of the file.
func (p *reading) profiles(root *tree) (*Profiles, error) {
	if root.kind != '{' {
		return nil, p.wrong(root.line, "there must be an object with a profile under each name")
	}
	all := &Profiles{file: p.file}
	bases := map[*profile][]*tree{}
	var errs []error
	for _, f := range root.fields {
		o := &profile{name: f.name, line: f.line}
		all.all = append(all.all, o)
		if f.kind != '{' {
			errs = append(errs, p.wrong(f.line, "profile %q: it must be an object with policies", f.name))
			continue
		}
		var faults []error
		bases[o], faults = p.profile(o, f.fields)
		errs = append(errs, faults...)
	}
	for _, o := range all.all {
		errs = append(errs, p.extend(o, bases[o], all)...)
	}
	for _, o := range all.all {
		if o.loops() {
			return nil, errors.Join(append(errs, p.wrong(o.line, "profile %q extends itself", o.name))...)
		}
	}
	if len(errs) == 0 {
		for _, o := range all.all {
			errs = append(errs, p.validate(o)...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// extend finds the bases of a profile.
func (p *reading) extend(o *profile, bases []*tree, all *Profiles) (errs []error) {
	for _, b := range bases {
		name, _ := b.scalar.(string)
		if i := slices.Index(all.Names(), name); i >= 0 {
			o.bases = append(o.bases, all.all[i])
		} else {
			errs = append(errs, p.wrong(b.line, "profile %q extends %v, which is not there; there are %s", o.name, b.scalar, quoted(all.Names())))
		}
	}
	return errs
}

// profile fills in a profile, and returns the names of those that it extends, and all faults.
func (p *reading) profile(o *profile, fields []field) (bases []*tree, faults []error) {
	policies := func(fields []field, to *[]given) {
		for _, f := range fields {
			if one, err := p.policy(f); err != nil {
				faults = append(faults, err)
			} else {
				*to = append(*to, one)
			}
		}
	}
	for i, g := range fields {
		of := slices.Index(entities, g.name)
		switch {
		case g.name == "extends" && g.kind == 0:
			bases = []*tree{g.tree}
		case g.name == "extends" && g.kind == '[':
			bases = g.items
		case of >= 0 && g.kind == '{':
			policies(g.fields, &o.own[of])
		case of >= 0 || g.name == "extends":
			faults = append(faults, p.wrong(g.line, "%q is an object with policies, and \"extends\" the name of a profile or a list of names", g.name))
		default:
			policies(fields[i:i+1], &o.given)
		}
	}
	return bases, faults
}

var entities = []string{Topic: Topic.String(), Writer: Writer.String(), Reader: Reader.String()}

// loops reports whether a profile extends itself.
func (o *profile) loops() bool {
	if o.status > 0 {
		return o.status == 1
	}
	o.status = 1
	if slices.ContainsFunc(o.bases, (*profile).loops) {
		return true
	}
	o.status = 2
	return false
}

// validate returns the faults of a profile. Each of them is told where the policy stands.
func (p *reading) validate(o *profile) (errs []error) {
	for of := Topic; of <= Reader; of++ {
		var s Set
		lines := map[Policy]int{}
		o.apply(&s, of, lines)
		err := s.Validate(of)
		if err == nil {
			continue
		}
		faults := []error{err}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			faults = many.Unwrap()
		}
		for _, f := range faults {
			line := o.line
			for _, policy := range Policies() {
				if at, given := lines[policy]; given && strings.Contains(f.Error(), ": "+policy.String()+" of a ") {
					line = at
				}
			}
			errs = append(errs, fmt.Errorf("%w: %s:%d: profile %q: %w", ErrProfile, p.file, line, o.name, f))
		}
	}
	return errs
}

// policy reads a policy.
func (p *reading) policy(f field) (g given, err error) {
	i := slices.IndexFunc(Policies(), func(o Policy) bool { return o.String() == f.name })
	if i < 0 {
		return g, p.noPolicy(f)
	}
	g = given{policy: Policy(i), line: f.line}
	known := parts[g.policy]
	if f.kind != '{' {
		f.tree = &tree{line: f.line, kind: '{', fields: []field{{known[0].name, f.tree}}}
	}
	// A policy replaces the one of a base as a whole.
	puts := []func(*Set){func(s *Set) { g.policy.value(s).SetZero() }}
	for _, v := range f.fields {
		k := slices.IndexFunc(known, func(o part) bool { return o.name == v.name })
		if k < 0 {
			names := make([]string, len(known))
			for i := range known {
				names[i] = known[i].name
			}
			return g, p.wrong(v.line, "%v has no field %q; it has %s", g.policy, v.name, quoted(names))
		}
		put, due := known[k].read(v.tree)
		if put == nil {
			return g, p.wrong(v.line, "%v: %s is %s, and must be %s", g.policy, v.name, v.tree, due)
		}
		puts = append(puts, put)
	}
	g.put = func(s *Set) {
		for _, put := range puts {
			put(s)
		}
	}
	return g, nil
}

func (p *reading) noPolicy(f field) error {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return p.wrong(f.line, "there is no policy %q; there are %s, and besides them \"extends\", %s", f.name, strings.Join(names, ", "), quoted(entities))
}

func (t *tree) String() string {
	switch {
	case t.kind == '{':
		return "an object"
	case t.kind == '[':
		return "a list"
	}
	b, err := json.Marshal(t.scalar)
	if err != nil {
		return fmt.Sprint(t.scalar)
	}
	return string(b)
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(all, ", ")
}

// part is a field of a policy. Read returns what puts the value into a set, or nil and what is due.
// Show returns the value in a set as a profile has it, and nil for one that is left out: the
// default, of a field that is no kind.
type part struct {
	name string
	read func(*tree) (put func(*Set), due string)
	show func(*Set) any
}

// unless returns what is shown of a value.
func unless[V comparable](value V, shown any) any {
	var none V
	if value == none {
		return nil
	}
	return shown
}

// oneOf is a field that is one of the names of a kind.
func oneOf[K ~uint8](name string, last K, text func(K) string, at func(*Set) *K) part {
	return named(name, last, text, func(s *Set) K { return *at(s) }, func(s *Set, k K) { *at(s) = k })
}

func named[K ~uint8](name string, last K, text func(K) string, get func(*Set) K, put func(*Set, K)) part {
	return part{name, func(t *tree) (func(*Set), string) {
		var all []string
		for k := K(0); k <= last; k++ {
			if s, ok := t.scalar.(string); ok && s == text(k) {
				return func(s *Set) { put(s, k) }, ""
			}
			all = append(all, text(k))
		}
		return nil, "one of " + quoted(all)
	}, func(s *Set) any { return text(get(s)) }}
}

// duration is a field for a time. Endless ones may be infinite, which is 0 in a set, and must not
// be 0.
func duration(name string, endless bool, at func(*Set) *time.Duration) part {
	return part{name, func(t *tree) (func(*Set), string) {
		text, _ := t.scalar.(string)
		d, err := time.ParseDuration(text)
		switch {
		case endless && text == "infinite":
			d = 0
		case err != nil || d < 0 || endless && d == 0:
			due := "a duration such as \"100ms\""
			if endless {
				due += ", or \"infinite\""
			}
			return nil, due
		}
		return func(s *Set) { *at(s) = d }, ""
	}, func(s *Set) any { return unless(*at(s), at(s).String()) }}
}

func number[N int | int32](name string, least, most int64, at func(*Set) *N) part {
	return part{name, func(t *tree) (func(*Set), string) {
		text, _ := t.scalar.(json.Number)
		n, err := text.Int64()
		if err != nil || n < least || n > most {
			return nil, fmt.Sprintf("a whole number between %d and %d", least, most)
		}
		return func(s *Set) { *at(s) = N(n) }, ""
	}, func(s *Set) any { return unless(*at(s), *at(s)) }}
}

// truth is a field for TRUE or FALSE. Of some policies a set has the opposite.
func truth(name string, opposite bool, at func(*Set) *bool) part {
	return part{name, func(t *tree) (func(*Set), string) {
		v, ok := t.scalar.(bool)
		if !ok {
			return nil, "true or false"
		}
		return func(s *Set) { *at(s) = v != opposite }, ""
	}, func(s *Set) any { return unless(*at(s), *at(s) != opposite) }}
}

func text(name string, at func(*Set) *[]byte) part {
	return part{name, func(t *tree) (func(*Set), string) {
		v, ok := t.scalar.(string)
		if !ok {
			return nil, "a text"
		}
		return func(s *Set) { *at(s) = []byte(v) }, ""
	}, func(s *Set) any { return unless(len(*at(s)), string(*at(s))) }}
}

func texts(name string, at func(*Set) *[]string) part {
	return part{name, func(t *tree) (func(*Set), string) {
		all := []string{}
		for _, i := range t.items {
			v, ok := i.scalar.(string)
			if !ok {
				return nil, "a list of texts"
			}
			all = append(all, v)
		}
		if t.kind != '[' {
			return nil, "a list of texts"
		}
		return func(s *Set) { *at(s) = all }, ""
	}, func(s *Set) any { return unless(len(*at(s)), *at(s)) }}
}

// keeps are the fields of a history.
func keeps(kind, depth string, at func(*Set) *History) []part {
	return []part{
		named(kind, uint8(1), func(k uint8) string { return [...]string{"KEEP_LAST", "KEEP_ALL"}[k] }, func(s *Set) uint8 {
			if at(s).All {
				return 1
			}
			return 0
		}, func(s *Set, k uint8) { at(s).All = k == 1 }),
		number(depth, 1, math.MaxInt32, func(s *Set) *int { return &at(s).Depth }),
	}
}

func limits(at func(*Set) *Limits) []part {
	return []part{
		number("max_samples", 1, math.MaxInt32, func(s *Set) *int { return &at(s).Samples }),
		number("max_instances", 1, math.MaxInt32, func(s *Set) *int { return &at(s).Instances }),
		number("max_samples_per_instance", 1, math.MaxInt32, func(s *Set) *int { return &at(s).SamplesPerInstance }),
	}
}

// parts are the fields of the policies; the first one is the policy if that is no object.
var parts = [...][]part{
	UserDataPolicy:   {text("value", func(s *Set) *[]byte { return &s.UserData })},
	TopicDataPolicy:  {text("value", func(s *Set) *[]byte { return &s.TopicData })},
	GroupDataPolicy:  {text("value", func(s *Set) *[]byte { return &s.GroupData })},
	DurabilityPolicy: {oneOf("kind", Persistent, Durability.String, func(s *Set) *Durability { return &s.Durability })},
	DurabilityServicePolicy: slices.Concat(
		keeps("history_kind", "history_depth", func(s *Set) *History { return &s.Service.History }),
		limits(func(s *Set) *Limits { return &s.Service.Limits }),
		[]part{duration("service_cleanup_delay", false, func(s *Set) *time.Duration { return &s.Service.CleanupDelay })}),
	PresentationPolicy: {
		oneOf("access_scope", GroupScope, Scope.String, func(s *Set) *Scope { return &s.Presentation.Access }),
		truth("coherent_access", false, func(s *Set) *bool { return &s.Presentation.Coherent }),
		truth("ordered_access", false, func(s *Set) *bool { return &s.Presentation.Ordered }),
	},
	DeadlinePolicy:          {duration("period", true, func(s *Set) *time.Duration { return &s.Deadline })},
	LatencyBudgetPolicy:     {duration("duration", false, func(s *Set) *time.Duration { return &s.LatencyBudget })},
	OwnershipPolicy:         {oneOf("kind", Exclusive, Ownership.String, func(s *Set) *Ownership { return &s.Ownership })},
	OwnershipStrengthPolicy: {number("value", math.MinInt32, math.MaxInt32, func(s *Set) *int32 { return &s.Strength })},
	LivelinessPolicy: {
		oneOf("kind", ManualByTopic, LivelinessKind.String, func(s *Set) *LivelinessKind { return &s.Liveliness.Kind }),
		duration("lease_duration", true, func(s *Set) *time.Duration { return &s.Liveliness.Lease }),
	},
	TimeBasedFilterPolicy: {duration("minimum_separation", false, func(s *Set) *time.Duration { return &s.Separation })},
	PartitionPolicy:       {texts("name", func(s *Set) *[]string { return &s.Partitions })},
	ReliabilityPolicy: {
		oneOf("kind", BestEffort, ReliabilityKind.String, func(s *Set) *ReliabilityKind { return &s.Reliability.Kind }),
		duration("max_blocking_time", true, func(s *Set) *time.Duration { return &s.Reliability.MaxBlocking }),
	},
	TransportPriorityPolicy:   {number("value", math.MinInt32, math.MaxInt32, func(s *Set) *int32 { return &s.TransportPriority })},
	LifespanPolicy:            {duration("duration", true, func(s *Set) *time.Duration { return &s.Lifespan })},
	DestinationOrderPolicy:    {oneOf("kind", BySource, DestinationOrder.String, func(s *Set) *DestinationOrder { return &s.Order })},
	HistoryPolicy:             keeps("kind", "depth", func(s *Set) *History { return &s.History }),
	ResourceLimitsPolicy:      limits(func(s *Set) *Limits { return &s.Limits }),
	EntityFactoryPolicy:       {truth("autoenable_created_entities", true, func(s *Set) *bool { return &s.Disabled })},
	WriterDataLifecyclePolicy: {truth("autodispose_unregistered_instances", true, func(s *Set) *bool { return &s.KeepUnregistered })},
	ReaderDataLifecyclePolicy: {
		duration("autopurge_nowriter_samples_delay", false, func(s *Set) *time.Duration { return &s.Purge.NoWriters }),
		duration("autopurge_disposed_samples_delay", false, func(s *Set) *time.Duration { return &s.Purge.Disposed }),
	},
}

// Profile returns the policies of a set for an entity as a profile in JSON has them: by the names
// of DDS, with all kinds, and with other values that are not the default.
func (s *Set) Profile(of Entity) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, p := range Policies() {
		if !p.appliesTo(of) {
			continue
		}
		fields := map[string]any{}
		for _, f := range parts[p] {
			if v := f.show(s); v != nil {
				fields[f.name] = v
			}
		}
		if len(fields) > 0 {
			all[p.String()] = fields
		}
	}
	return all
}
