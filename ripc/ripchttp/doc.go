// Package ripchttp carries HTTP over package ripc: a client finds a web server by the name of its
// service, and within a host requests and responses go through shared memory.
//
//	server := &ripchttp.Server{Handler: handler}
//	err := server.Serve(service) // until Shutdown or Close
//
//	client := http.Client{Transport: &ripchttp.Transport{Service: me}}
//	response, err := client.Get("http://web/index.html") // of the service "web", wherever it is
//
// A request whose head and body fit into one message is a call, and a response that fits is its
// reply: neither is written as text and parsed again. Everything else goes over streams as
// HTTP/1.1, between the client and the server of net/http: long and flushed bodies, trailers,
// informational responses, Expect and Upgrade. If a response to a call turns out to be one of
// these, the reply is a ticket, with which the client asks for the response on a stream. The
// handler notices nothing of that.
package ripchttp
