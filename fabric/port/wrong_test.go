package port

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

func TestBothEndsOfAWrongConnectionReadOnePlainSentence(t *testing.T) {
	with := testutil.NewAuthority(t).TLS()
	for _, test := range []struct {
		name         string
		here, caller *tls.Config
		handled      Kind
		asked        Kind
		want         error
		text         string
	}{
		{"a client at the port of members", nil, nil, KindControl, KindServices, ErrWrongPort, "it is for the members of the group"},
		{"a member at the port of clients", nil, nil, KindServices, KindControl, ErrWrongPort, "it is for clients"},
		{"only the port uses TLS", with, nil, KindControl, KindControl, ErrTLSDiffers, "set TLS at both"},
		{"only the caller uses TLS", nil, with, KindControl, KindControl, ErrTLSDiffers, "set TLS at both"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, rejections := listen(t, Config{TLS: test.here})
			p.Handle(test.handled, echo)
			_, err := Dial(within(t), p.Addr(), test.asked, test.caller)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("the caller reads %v", err)
			}
			r := <-rejections
			if !errors.Is(r.Err, test.want) {
				t.Errorf("the port reports %v", r)
			}
			for _, text := range []string{err.Error(), r.String()} {
				if strings.Contains(text, "preamble") || strings.Contains(text, `\x`) || strings.Contains(text, "kind of connection") {
					t.Errorf("a user reads %s", text)
				}
			}
		})
	}
}
