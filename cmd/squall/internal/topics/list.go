package topics

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

var mapOfTexts = reflect.TypeFor[map[string]any]()

// Listed is a topic in what "squall dds ls --json" prints.
type Listed struct {
	Topic string `json:"topic"`
	Type  string `json:"type"` // encoding and name of the type
	Keyed bool   `json:"keyed"`
	// QoS are the policies, as a profile has them.
	QoS     map[string]map[string]any `json:"qos"`
	Writers []string                  `json:"writers"`
	Readers []string                  `json:"readers"`
}

func listed(p party) []Listed {
	all := []Listed{}
	for _, t := range p.Topics() {
		l := Listed{Topic: t.Name, Type: t.Type, Keyed: t.Keyed, QoS: t.QoS.Profile(qos.Topic), Writers: []string{}, Readers: []string{}}
		for _, e := range p.Endpoints() {
			switch {
			case e.Topic != t.Name:
			case e.Reader:
				l.Readers = append(l.Readers, e.ID.String())
			default:
				l.Writers = append(l.Writers, e.ID.String())
			}
		}
		all = append(all, l)
	}
	return all
}

func newListCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "ls [flags]",
		Short: "List the topics of a space, with their writers and readers",
		Long:  `Ls lists the topics of a space: their types, policies, writers and readers. An endpoint is named by its node, the incarnation of its process, and a number.`,
		Example: `  squall dds ls --join 127.0.0.1:7001
  squall dds ls --join 127.0.0.1:7001 --json | jq '.[] | {topic, durability: .qos.DURABILITY.kind, writers}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), func(p party) error {
				all := listed(p)
				if o.json {
					return show.JSON(cmd.OutOrStdout(), all)
				}
				t := show.Table(cmd.OutOrStdout(), "topic", "type", "keys", "durability", "ownership", "writers", "readers")
				for _, l := range all {
					t.AppendRow(table.Row{show.Text(l.Topic), show.Text(l.Type), l.Keyed, l.QoS["DURABILITY"]["kind"], l.QoS["OWNERSHIP"]["kind"], len(l.Writers), len(l.Readers)})
				}
				t.Render()
				return nil
			})
		},
	}
	o.declare(cmd)
	return cmd
}

// Explained is a writer and a reader in what "squall dds explain --json" prints.
type Explained struct {
	Writer   string    `json:"writer"`
	Reader   string    `json:"reader"`
	Match    bool      `json:"match"`
	Verdicts []Verdict `json:"verdicts"`
}

// Verdict is that on one policy.
type Verdict struct {
	Policy     string `json:"policy"`
	Compatible bool   `json:"compatible"`
	Offered    string `json:"offered"`
	Requested  string `json:"requested"`
	Rule       string `json:"rule"` // what has to hold
	text       string
}

func newExplainCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "explain TOPIC [flags]",
		Short: "Say, policy by policy, which writers and readers of a topic match",
		Long:  `Explain prints, for each writer and each reader of a topic, the verdict on every policy by which they match, or do not.`,
		Example: `  squall dds explain positions --join 127.0.0.1:7001
  squall dds explain positions --join 127.0.0.1:7001 --json | jq '.[] | select(.match | not)'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd.Context(), func(p party) error {
				all, err := explained(p, args[0])
				if err != nil {
					return err
				}
				if o.json {
					return show.JSON(cmd.OutOrStdout(), all)
				}
				if len(all) == 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "topic %q has no pair of a writer and a reader\n", args[0])
				}
				for _, x := range all {
					x.print(cmd.OutOrStdout())
				}
				return nil
			})
		},
	}
	o.declare(cmd)
	return cmd
}

func (x *Explained) print(w io.Writer) {
	matches := "match"
	if !x.Match {
		matches = "do not match"
	}
	fmt.Fprintf(w, "writer %s and reader %s %s\n", x.Writer, x.Reader, matches)
	for _, v := range x.Verdicts {
		fmt.Fprintf(w, "  %s\n", v.text)
	}
}

func explained(p party, topic string) ([]Explained, error) {
	if !slices.ContainsFunc(p.Topics(), func(t dds.TopicInfo) bool { return t.Name == topic }) {
		return nil, fmt.Errorf("the space has no topic %q", topic)
	}
	all := []Explained{}
	endpoints := p.Endpoints()
	for _, w := range endpoints {
		for _, r := range endpoints {
			if w.Reader || !r.Reader || w.Topic != topic || r.Topic != topic {
				continue
			}
			verdicts, err := p.Explain(w.ID, r.ID)
			if err != nil {
				return nil, err
			}
			match, _ := qos.Match(&w.QoS, &r.QoS)
			x := Explained{Writer: w.ID.String(), Reader: r.ID.String(), Match: match}
			for _, v := range verdicts {
				x.Verdicts = append(x.Verdicts, Verdict{v.Policy.String(), v.Compatible, v.Offered, v.Requested, v.Rule, v.String()})
			}
			all = append(all, x)
		}
	}
	return all, nil
}
