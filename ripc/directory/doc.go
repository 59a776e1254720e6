// Package directory finds services of package ripc, wherever they are: a replicated service inside
// a Squall group.
//
// Every member of the group has a [Directory], which is a subgroup of it, and serves to any process
// over ripc:
//
//	dir := directory.New(directory.Config{})
//	g, err := squall.Open(ctx, squall.Config{…, Subgroups: []squall.SubgroupConfig{dir.Subgroup()}})
//	e, err := ripc.Open(ctx, ripc.Config{Listen: "10.0.0.1:7100", Resolver: dir})
//	err = dir.Serve(ctx, g, e)
//
// Other processes have a [Client], which knows the addresses of some members:
//
//	c, err := directory.Dial(ctx, directory.ClientConfig{Addresses: []string{"10.0.0.1:7100", "10.0.0.2:7100"}})
//	e, err := ripc.Open(ctx, ripc.Config{Listen: ":0", Resolver: c})
//
// Both are resolvers: a service that is registered on an endpoint is in the directory until it is
// closed, or its process is silent for the time of a lease. A name belongs to the key, or with TLS
// to the identity in the certificate, that registered it first. A change is reported to all that
// had asked for the name.
//
// Package registry, below, has the rules, which every member applies in the order of the group.
package directory
