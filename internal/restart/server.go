package restart

import (
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// Server answers, for a member of a group that works, those who believe that the group has to restart.
type Server struct {
	cluster string
	self    views.Member
	view    func() *views.View
	callers port.Callers
}

// NewServer makes a server. View is the view that is installed; nil: this process is no member any more.
func NewServer(cluster string, self views.Member, view func() *views.View) *Server {
	return &Server{cluster: cluster, self: self, view: view}
}

// answerWithin bounds a conversation with somebody who asks.
const answerWithin = 10 * time.Second

// Serve is the handler of port.KindRestart.
func (s *Server) Serve(conn net.Conn) {
	defer conn.Close()
	if _, ok := s.callers.Enter(conn, maxCallers); !ok {
		return
	}
	defer s.callers.Leave(conn)
	for {
		var m Message
		if conn.SetReadDeadline(time.Now().Add(answerWithin)) != nil || port.ReadMessage(conn, &m) != nil || m.check() != nil {
			return
		}
		answer, ok := s.answer(m)
		if !ok || write(conn, answer, answerWithin) != nil {
			return
		}
	}
}

// answer says that the group works, and where. Its view is for its members only: one that took part in the restart and did not hear the
// end learns so that it is in force.
func (s *Server) answer(m Message) (Message, bool) {
	v := s.view()
	if v == nil {
		return Message{}, false
	}
	answer := Message{Verb: Running, Cluster: s.cluster, From: s.self, ViewID: v.ID}
	if m.Cluster != s.cluster {
		answer.Verb, answer.ViewID, answer.Text = Refuse, 0, "this is cluster "+s.cluster
		return answer, true
	}
	for _, member := range v.Members {
		if len(answer.Peers) < maxPeers {
			answer.Peers = append(answer.Peers, member.Addr)
		}
	}
	if r, ok := v.RankOf(m.From.ID); ok && v.Members[r].Incarnation == m.From.Incarnation {
		answer.Next, answer.Key = Successor{View: v}, v.Key
	}
	return answer, true
}

// Close ends all conversations.
func (s *Server) Close() { s.callers.HangUp() }
