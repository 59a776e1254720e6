package restart

import (
	"net"
	"time"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/views"
)

// Server answers, for a member of a group that works, processes that believe that the group has to
// restart.
type Server struct {
	cluster string
	self    views.Member
	view    func() *views.View
	callers *wire.Callers
}

// NewServer makes a server. View is the view that is installed; nil: this process is no member any
// more.
func NewServer(cluster string, self views.Member, view func() *views.View) *Server {
	return &Server{cluster: cluster, self: self, view: view, callers: newCallers()}
}

// answerWithin bounds the silence of a process that asks.
const answerWithin = 10 * time.Second

// Serve is the handler of port.KindRestart.
func (s *Server) Serve(conn net.Conn) {
	defer conn.Close()
	if _, ok := s.callers.Enter(conn); !ok {
		return
	}
	defer s.callers.Leave(conn)
	c := talk(conn, answerWithin, answerWithin)
	defer c.Pulses()()
	for {
		var m Message
		if c.Hear(&m) != nil || m.check() != nil {
			return
		}
		s.callers.Settle(conn)
		answer, ok := s.answer(m)
		if !ok || c.Say(answer) != nil {
			return
		}
	}
}

func (s *Server) answer(m Message) (Message, bool) {
	v := s.view()
	if v == nil {
		return Message{}, false
	}
	return Answer(s.cluster, s.self, v, m), true
}

// Answer is what a member of a view says to a process that believes that the group has to restart:
// that the group works, and where. The view is for its members only: one that took part in the
// restart and did not hear the end learns so that it is in force. A process of another group is
// told which group this is, and nothing else.
func Answer(cluster string, self views.Member, v *views.View, m Message) Message {
	answer := Message{Verb: Running, Cluster: cluster, From: self, To: m.From.Incarnation, ViewID: v.ID, Group: v.Group, Lineage: v.Lineage}
	genuine := m.Genuine(v.Secret)
	switch {
	case m.Cluster != cluster:
		return Message{Verb: Refuse, Cluster: cluster, From: self, Text: "this is cluster " + cluster}
	case v.Group != "" && m.Group != "" && !m.kin(v):
		return answer.Sealed(v.Secret)
	case v.Group != "" && m.Group != "" && !genuine:
		return Message{Verb: Refuse, Cluster: cluster, From: self, Text: "you do not know the secret of group " + v.Group}
	}
	for _, member := range v.Members {
		if len(answer.Peers) < maxPeers {
			answer.Peers = append(answer.Peers, member.Addr)
		}
	}
	if r, ok := v.RankOf(m.From.ID); ok && v.Members[r].Incarnation == m.From.Incarnation && (v.Group == "" || genuine) {
		answer.Next, answer.Key = Successor{View: v}, v.Key()
	}
	return answer.Sealed(v.Secret)
}

// Close ends all conversations.
func (s *Server) Close() { s.callers.HangUp() }
