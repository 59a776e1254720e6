package ripc

// LocalService is a service that is registered with OneHost.
type LocalService struct {
	Service ID     `json:"service"`
	Domain  string `json:"domain,omitempty"`
	Process string `json:"-"` // the process that has the place
	Place
}
