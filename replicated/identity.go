package replicated

import (
	"context"
	"errors"
	"fmt"

	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// service returns the id of the service of an object. The lock is held, and the group is known.
func (c *Client) service(o *RemoteObject) ripc.ID {
	if o.id != "" {
		return o.id
	}
	return service(c.cfg.Cluster, c.group, o.name)
}

// call sends a request on a link. A member that does not know the service may be of another group: then the error is an ErrOtherGroup. To is nil if
// the client does not know the group yet; it asks for it then.
func (c *Client) call(ctx context.Context, o *RemoteObject, service *ripc.Service, to *ripc.Remote, parts [][]byte) (ripc.Message, error) {
	if to == nil {
		if err := c.identify(ctx, o, service); err != nil {
			return ripc.Message{}, err
		}
		c.mu.Lock()
		to = service.To(c.service(o))
		c.mu.Unlock()
	}
	m, err := service.Call(ctx, to, parts...)
	if request := parts[0]; errors.Is(err, ripc.ErrTooLarge) && len(request) > to.MaxMessage() && to.MaxMessage() > 0 {
		m, err = service.CallLong(ctx, to, nil, ripc.Bytes(request))
	}
	if err != nil && o.id == "" && errors.Is(err, ripc.ErrNoService) {
		if other := c.identify(ctx, o, service); errors.Is(other, ErrOtherGroup) {
			err = other
		}
	}
	return m, err
}

// identify asks a member which group it is of. The client keeps the first answer that it gets; a member that gives another one is refused.
func (c *Client) identify(ctx context.Context, o *RemoteObject, service *ripc.Service) error {
	m, err := service.Call(ctx, service.To(catalog), (&relay.Request{Ask: askGroup, Rest: []byte(c.cfg.Cluster)}).AppendTo(nil))
	if err != nil {
		return err
	}
	defer m.Release()
	_, text, err := parseAnswer("group", m.Data)
	switch group := string(text); {
	case err != nil:
		return err
	case group == "":
		return fmt.Errorf("%w: the member is of no cluster %q", ripc.ErrNoService, c.cfg.Cluster)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.group == "" {
			c.group = group
		}
		if c.group != group {
			return fmt.Errorf("replicated: %w: the client calls group %s of cluster %q, and the member at %s is of group %s", ErrOtherGroup, c.group, c.cfg.Cluster, o.route.Place(), group)
		}
		return nil
	}
}
