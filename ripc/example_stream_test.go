package ripc_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/squall-go/squall/ripc"
)

// A web server that is addressed by the name of its service.
func ExampleListen() {
	ctx := context.Background()
	server, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	web, err := server.Register(ctx, "web")
	if err != nil {
		fmt.Println(err)
		return
	}
	go http.Serve(ripc.Listen(web), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s asked for %s\n", r.RemoteAddr, r.URL.Path)
	}))

	client, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{"web": server.Place()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	me, err := client.Register(ctx, "browser")
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := &http.Transport{DialContext: me.DialContext}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://web/index.html")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", body)
	// Output: browser asked for /index.html
}
