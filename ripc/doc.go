// Package ripc carries messages from one process to one other, at the speed of memory where both
// are on one host. docs/ripc.md explains it.
//
// A process opens an [Endpoint] and registers services on it, which are addressed by id, wherever
// they are. Both ends are the same: a client is a service without a name.
//
//	e, err := ripc.Open(ctx, ripc.Config{})
//	s, err := e.Register(ctx, "echo")
//	err = s.Serve(ctx, func(ctx context.Context, m *ripc.Message) { m.Reply(m.Data) })
//
//	m, err := client.Call(ctx, client.To("echo"), []byte("hello"))
//	fmt.Printf("%s\n", m.Data)
//	m.Release()
//
// Between two processes that live nothing is lost, duplicated or reordered: a message of one
// service to one other is received once, in the order of sending. When the service ends, its
// senders learn how many of the last messages it has not received ([GoneError]). The next message
// looks for the service again, and goes to wherever it is then.
//
// A message is received in place and lies in the memory of the pair until it is released. What a
// service does not receive blocks the services that send to it, and no others.
//
// # Long messages
//
// A message of any size is a head, which is a short message, and a [Body]: [NewBody], a [Buffer],
// [NewReaderBody] or [NewFileBody]. The receiving service says which ones it takes, and where their
// bodies go:
//
//	s.Post(ripc.NewWindow(memory), ripc.NewFileWindow(f, 0, size)) // windows, for one message each
//	s.TakeLong(ripc.LongConfig{MaxBytes: 64 << 20})                      // memory of the library
//	s.TakeLong(ripc.LongConfig{MaxBytes: 64 << 20, InPlace: true})       // looked at where they are, if the sender is on this host
//
//	err = client.SendLong(ctx, to, ripc.NewBody(data), head)       // returns when the receiving process has data
//	m, err := s.Receive(ctx)                                       // m.Data is the head, m.Body() the body
//
//	m, err = client.CallLong(ctx, to, into, ripc.Body{}, request)  // into is the return buffer: the reply needs no window
//	err = m.ReplyLong(ctx, ripc.NewBody(data), head)             // the service's answer
//
// Within a host a body is in shared memory, to which the receiver has a read-only view: a [Buffer]
// is not copied at all, other bodies once. Over TCP bodies have a connection of their own and go
// straight into the window. Short messages do not wait for long ones, and may overtake them.
//
// There is no loop that receives for others: of the goroutines that wait, one polls the rows of the
// peers, sleeps when nothing comes, and wakes another one when it leaves. Package pair, below, has
// the protocol, package table decides who polls, and docs/decisions/0047 says why.
package ripc
