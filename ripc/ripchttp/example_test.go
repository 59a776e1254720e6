package ripchttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/ripchttp"
)

// A web server and a client, each in an endpoint as it would be in a process of its own.
func Example() {
	ctx := context.Background()
	there, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer there.Close()
	web, err := there.Register(ctx, "web")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &ripchttp.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "this is %s\n", r.URL.Path)
	})}
	go server.Serve(web)
	defer server.Close()

	here, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{"web": there.Place()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer here.Close()
	me, err := here.Register(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	transport := &ripchttp.Transport{Service: me}
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
	fmt.Printf("%s %s", response.Status, body)
	// Output: 200 OK this is /index.html
}
