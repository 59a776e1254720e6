package topics

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/mcap"
	"github.com/squall-go/squall/cmd/squall/internal/version"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

// A recording is an MCAP file, which docs/formats.md describes: a channel for each topic, with the
// samples as they are, and one channel of changes with what a message of MCAP has no place for.
const (
	recordingVersion = "1"
	recordingName    = "squall.recording" // of the metadata that every recording begins with
	changesTopic     = "squall/changes"
	topicTag         = "squall.topic" // of the metadata of a channel that is a topic
)

// Kinds of changes.
const (
	ofWriter    = "writer"
	ofSample    = "sample"
	ofDispose   = "disposed"
	ofNoWriters = "no_writers"
)

// change is a message of the channel of changes.
type change struct {
	Kind     string `json:"kind"`
	Writer   int    `json:"writer"`             // number in this file, from 1; 0: there is none
	Channel  uint16 `json:"channel,omitempty"`  // of the topic
	Sequence uint32 `json:"sequence,omitempty"` // of a sample: that of the message that follows
	Position uint64 `json:"position,omitempty"` // in the order of the space
	Key      []byte `json:"key,omitempty"`      // of the instance, as package cdr encodes it

	// Of a writer.
	ID     string      `json:"id,omitempty"`
	Origin *dds.Origin `json:"origin,omitempty"`
	QoS    *dds.QoS    `json:"qos,omitempty"` // if it is known
}

const changesSchema = `{"type": "object", "required": ["kind", "writer"], "properties": {
  "kind": {"enum": ["writer", "sample", "disposed", "no_writers"]}, "writer": {"type": "integer"}, "channel": {"type": "integer"}, "sequence": {"type": "integer"},
  "position": {"type": "integer"}, "key": {"type": "string", "contentEncoding": "base64"}, "id": {"type": "string"}, "origin": {"type": "object"}, "qos": {"type": "object"}}}`

// described is a topic in the metadata of its channel.
type described struct {
	Type  string  `json:"type"`
	Keyed bool    `json:"keyed"`
	QoS   dds.QoS `json:"qos"`
}

// tape writes a recording.
type tape struct {
	w        *mcap.Writer
	changes  uint16
	sequence uint32
	topics   map[string]*track
	writers  map[dds.ID]int
	logged   int64 // time of the last message
	position uint64
	samples  int
	ended    int // changes of instances
}

// track is a topic of a recording.
type track struct {
	info    dds.TopicInfo
	channel uint16
	samples uint32
	last    map[string]int // writers that wrote instances last, by the keys
}

// newTape begins a recording.
func newTape(to io.Writer, cluster, space string, now time.Time) (*tape, error) {
	w, err := mcap.NewWriter(to, mcap.Header{Profile: "squall", Library: "squall " + version.String()})
	if err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it does not fail
	err = w.Metadata(mcap.Metadata{Name: recordingName, Values: map[string]string{
		"version": recordingVersion, "id": hex.EncodeToString(id[:]), "cluster": cluster, "space": space, "begun": now.UTC().Format(time.RFC3339Nano),
	}})
	if err != nil {
		return nil, err
	}
	t := &tape{w: w, topics: map[string]*track{}, writers: map[dds.ID]int{}}
	schema, err := w.Schema(mcap.Schema{Name: changesTopic, Encoding: "jsonschema", Data: []byte(changesSchema)})
	if err == nil {
		t.changes, err = w.Channel(mcap.Channel{Topic: changesTopic, Schema: schema, Encoding: "json"})
	}
	return t, err
}

// encodings are the names of encodings in MCAP, by their names in topics.
var encodings = map[string]string{"xcdr": "cdr", "cbor": "cbor", "raw": "raw"}

// topic adds a topic, with the IDL of its type if there is one.
func (t *tape) topic(info dds.TopicInfo, idl []byte) (*track, error) {
	text, err := json.Marshal(described{info.Type, info.Keyed, info.QoS})
	if err != nil {
		return nil, err
	}
	encoding, name, _ := strings.Cut(info.Type, ":")
	c := mcap.Channel{Topic: info.Name, Encoding: encoding, Metadata: map[string]string{topicTag: string(text)}}
	if known := encodings[encoding]; known != "" {
		c.Encoding = known
	}
	if idl != nil {
		if c.Schema, err = t.w.Schema(mcap.Schema{Name: name, Encoding: "omgidl", Data: idl}); err != nil {
			return nil, err
		}
	}
	tr := &track{info: info, last: map[string]int{}}
	if tr.channel, err = t.w.Channel(c); err == nil {
		t.topics[info.Name] = tr
	}
	return tr, err
}

// note writes a change.
func (t *tape) note(c *change, source int64) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	t.sequence++
	return t.w.Message(&mcap.Message{Channel: t.changes, Sequence: t.sequence, Logged: uint64(t.logged), Published: uint64(source), Data: data})
}

// writer returns the number of a writer, and describes it if it is new.
func (t *tape) writer(info *dds.Info, known func(dds.ID) *dds.QoS) (int, error) {
	if info.Writer == (dds.ID{}) {
		return 0, nil
	}
	if n := t.writers[info.Writer]; n != 0 {
		return n, nil
	}
	n := len(t.writers) + 1
	t.writers[info.Writer] = n
	return n, t.note(&change{Kind: ofWriter, Writer: n, ID: info.Writer.String(), Origin: info.Origin, QoS: known(info.Writer)}, t.logged)
}

// add writes a sample, or a change of an instance, which came at a time.
func (t *tape) add(tr *track, at int64, info *dds.Info, v dds.Encoded, known func(dds.ID) *dds.QoS) error {
	t.logged, t.position = max(t.logged, at), max(t.position, info.Position)
	n, err := t.writer(info, known)
	if err != nil {
		return err
	}
	c := change{Writer: n, Channel: tr.channel, Position: info.Position, Key: v.Key}
	if !info.Valid {
		c.Kind = ofNoWriters
		if info.Instance == dds.InstanceDisposed {
			c.Kind = ofDispose
		} else if n == 0 { // the space does not say which writer was the last one
			c.Writer = tr.last[string(v.Key)]
		}
		t.ended++
		return t.note(&c, info.Source)
	}
	if tr.last[string(v.Key)] != n {
		tr.last[string(v.Key)] = n
	}
	tr.samples++
	t.samples++
	c.Kind, c.Sequence = ofSample, tr.samples
	if err := t.note(&c, info.Source); err != nil {
		return err
	}
	return t.w.Message(&mcap.Message{Channel: tr.channel, Sequence: tr.samples, Logged: uint64(t.logged), Published: uint64(info.Source), Data: v.Data})
}

// close ends the recording.
func (t *tape) close(lost uint64) error {
	err := t.w.Metadata(mcap.Metadata{Name: "squall.end", Values: map[string]string{
		"samples": strconv.Itoa(t.samples), "changes": strconv.Itoa(t.ended), "lost": strconv.FormatUint(lost, 10),
	}})
	if err != nil {
		return err
	}
	return t.w.Close()
}

// recorded is a sample of a recording, or the end of an instance.
type recorded struct {
	channel    uint16
	operation  dds.Operation
	position   uint64
	source     int64
	logged     int64
	writer     int
	partitions []string // of the writer
	key, data  []byte   // valid until the next call
}

// player reads a recording.
type player struct {
	file    *os.File
	r       *mcap.Reader
	id      string
	topics  map[uint16]*dds.TopicInfo
	writers map[int]*change
	changes uint16
}

// openRecording begins to read a recording.
func openRecording(file *os.File) (*player, error) {
	at, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p := &player{file: file, topics: map[uint16]*dds.TopicInfo{}, writers: map[int]*change{}}
	if p.r, err = mcap.NewReader(file, at.Size()); err != nil {
		return nil, err
	}
	return p, nil
}

// errRecording is wrapped by the errors of files that are MCAP, and no recordings of topics.
var errRecording = errors.New("it is no recording of this program")

// next returns the next sample or end of an instance; io.EOF at the end.
func (p *player) next() (*recorded, error) {
	for {
		rec, err := p.r.Next()
		if err != nil {
			return nil, err
		}
		switch m := rec.(type) {
		case *mcap.Metadata:
			err = p.begin(m)
		case *mcap.Channel:
			err = p.channel(m)
		case *mcap.Message:
			if p.id == "" || m.Channel != p.changes {
				return nil, fmt.Errorf("%w: a message of channel %d has no change before it", errRecording, m.Channel)
			}
			out, err := p.changed(m)
			if out != nil || err != nil {
				return out, err
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *player) begin(m *mcap.Metadata) error {
	if m.Name != recordingName {
		return nil
	}
	if v := m.Values["version"]; v != recordingVersion {
		return fmt.Errorf("%w: recordings of version %q are of a later program; this one reads version %s", errRecording, v, recordingVersion)
	}
	p.id = m.Values["id"]
	if p.id == "" {
		return fmt.Errorf("%w: it has no id", errRecording)
	}
	return nil
}

func (p *player) channel(c *mcap.Channel) error {
	if c.Topic == changesTopic && c.Metadata[topicTag] == "" {
		p.changes = c.ID
		return nil
	}
	if p.id == "" {
		return errRecording
	}
	var d described
	if err := json.Unmarshal([]byte(c.Metadata[topicTag]), &d); err != nil {
		return fmt.Errorf("%w: topic %q is not described: %w", errRecording, c.Topic, err)
	}
	p.topics[c.ID] = &dds.TopicInfo{Name: c.Topic, Type: d.Type, Keyed: d.Keyed, QoS: d.QoS}
	return nil
}

// changed is what a change is about; nil if it describes a writer.
func (p *player) changed(m *mcap.Message) (*recorded, error) {
	var c change
	if err := json.Unmarshal(m.Data, &c); err != nil {
		return nil, fmt.Errorf("%w: change %d: %w", errRecording, m.Sequence, err)
	}
	if c.Kind == ofWriter {
		p.writers[c.Writer] = &c
		return nil, nil
	}
	out := &recorded{channel: c.Channel, position: c.Position, source: int64(m.Published), logged: int64(m.Logged), writer: c.Writer, key: c.Key}
	if w := p.writers[c.Writer]; w != nil && w.QoS != nil {
		out.partitions = w.QoS.Partitions
	}
	if p.topics[c.Channel] == nil || out.logged < 0 {
		return nil, fmt.Errorf("%w: change %d is of a topic that it does not have, or of no time", errRecording, m.Sequence)
	}
	switch c.Kind {
	case ofSample:
		rec, err := p.r.Next()
		if err != nil {
			return nil, err
		}
		s, ok := rec.(*mcap.Message)
		if !ok || s.Channel != c.Channel || s.Sequence != c.Sequence {
			return nil, fmt.Errorf("%w: change %d is not followed by sample %d of topic %q", errRecording, m.Sequence, c.Sequence, p.topics[c.Channel].Name)
		}
		out.operation, out.data = dds.OperationWrite, s.Data
	case ofDispose:
		out.operation = dds.OperationDispose
	case ofNoWriters:
		out.operation = dds.OperationUnregister
	default:
		return nil, fmt.Errorf("%w: change %d is of the kind %q", errRecording, m.Sequence, c.Kind)
	}
	return out, nil
}

// voice is what is played by one writer: a topic, in partitions.
type voice struct {
	channel    uint16
	partitions string // as JSON
}

func voiceOf(r *recorded) voice {
	if len(r.partitions) == 0 {
		return voice{r.channel, ""}
	}
	text, _ := json.Marshal(r.partitions) // texts can be marshalled
	return voice{r.channel, string(text)}
}

// Content is what a recording has, in what "squall dds play --check --json" prints.
type Content struct {
	File    string    `json:"file"`
	ID      string    `json:"id"`
	Samples int       `json:"samples"`
	Changes int       `json:"changes"` // of instances, which ended
	Writers int       `json:"writers"`
	First   time.Time `json:"first,omitzero"` // when they were recorded
	Last    time.Time `json:"last,omitzero"`
	Topics  []Counted `json:"topics"`
	Torn    string    `json:"torn,omitempty"` // where the end of the file is missing

	voices map[voice]*recorded
	infos  map[uint16]dds.TopicInfo // by their channels
}

// Counted is a topic in a Content.
type Counted struct {
	Topic   string `json:"topic"`
	Type    string `json:"type"`
	Keyed   bool   `json:"keyed"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
}

// count counts a sample or the end of an instance.
func (c *Content) count(r *recorded, counts map[uint16]*Counted) {
	if c.First.IsZero() {
		c.First = time.Unix(0, r.logged)
	}
	c.Last = time.Unix(0, r.logged)
	if c.voices[voiceOf(r)] == nil {
		c.voices[voiceOf(r)] = &recorded{channel: r.channel, partitions: r.partitions}
	}
	if r.operation != dds.OperationWrite {
		c.Changes++
		return
	}
	n := counts[r.channel]
	if n == nil {
		n = &Counted{}
		counts[r.channel] = n
	}
	n.Samples++
	n.Bytes += int64(len(r.data))
	c.Samples++
}

// survey reads all of a recording, and checks it. A file whose end is missing has what comes
// before.
func survey(path string, file *os.File) (*Content, error) {
	p, err := openRecording(file)
	c := &Content{File: path, Topics: []Counted{}, voices: map[voice]*recorded{}, infos: map[uint16]dds.TopicInfo{}}
	counts := map[uint16]*Counted{}
	for err == nil {
		var r *recorded
		if r, err = p.next(); err == nil {
			c.count(r, counts)
		}
	}
	switch {
	case errors.Is(err, mcap.ErrTorn):
		c.Torn = err.Error()
	case err != io.EOF:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p == nil || p.id == "" {
		if c.Torn != "" {
			return nil, fmt.Errorf("%s: %s: nothing was recorded", path, c.Torn)
		}
		return nil, fmt.Errorf("%s: %w", path, errRecording)
	}
	c.ID, c.Writers = p.id, len(p.writers)
	for id, t := range p.topics {
		n := cmp.Or(counts[id], &Counted{})
		n.Topic, n.Type, n.Keyed = t.Name, t.Type, t.Keyed
		c.Topics, c.infos[id] = append(c.Topics, *n), *t
	}
	slices.SortFunc(c.Topics, func(a, b Counted) int { return strings.Compare(a.Topic, b.Topic) })
	return c, nil
}

// writerQoS returns the policies of writers that the space has.
func writerQoS(p party) func(dds.ID) *dds.QoS {
	all := map[dds.ID]*dds.QoS{}
	return func(id dds.ID) *dds.QoS {
		if all[id] == nil {
			for _, e := range p.Endpoints() {
				if !e.Reader {
					all[e.ID] = &qos.Set{}
					*all[e.ID] = e.QoS
				}
			}
		}
		return all[id]
	}
}
