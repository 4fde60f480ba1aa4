// transit serves the Transit engine of Vault 1.14 (MPL 2.0) over HTTPS: its paths, its storage and its errors, without the rest of Vault.
// One token may do everything but make a key by encrypting with it, as a policy of `update` says. Questions are counted, for tests: GET /asked.
//
//	transit -listen 127.0.0.1:8200 -data FOLDER -token TOKEN -cert FILE -key FILE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/sdk/framework"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/file"
)

const (
	mount        = "/v1/transit/"
	bodyBytesMax = 1 << 20
)

type server struct {
	engine  logical.Backend
	storage logical.Storage
	token   string
	mutex   sync.Mutex
	asked   map[string]int
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8200", "address")
	data := flag.String("data", "", "folder of the keys")
	token := flag.String("token", "", "the token that may do everything")
	cert := flag.String("cert", "", "certificate; without one, it serves plain HTTP")
	key := flag.String("key", "", "key of the certificate")
	flag.Parse()
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn})
	files, err := file.NewFileBackend(map[string]string{"path": *data}, logger)
	if err != nil {
		log.Fatal(err)
	}
	storage := logical.NewLogicalStorage(files)
	config := &logical.BackendConfig{
		Logger:      logger,
		StorageView: storage,
		System:      &logical.StaticSystemView{DefaultLeaseTTLVal: time.Hour, MaxLeaseTTLVal: time.Hour},
	}
	engine, err := transit.Backend(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	// This release's engine has one path that its own framework calls a mistake: the size of the cache. Nobody here sets it.
	engine.Paths = slices.DeleteFunc(engine.Paths, func(path *framework.Path) bool { return path.Pattern == "cache-config" })
	if err := engine.Setup(context.Background(), config); err != nil {
		log.Fatal(err)
	}
	if err := engine.Initialize(context.Background(), &logical.InitializationRequest{Storage: storage}); err != nil {
		log.Fatal(err)
	}
	s := &server{engine: engine, storage: storage, token: *token, asked: map[string]int{}}
	http.HandleFunc("/v1/", s.serve)
	http.HandleFunc("/asked", func(w http.ResponseWriter, _ *http.Request) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		_ = json.NewEncoder(w).Encode(s.asked)
	})
	if *cert == "" {
		log.Fatal(http.ListenAndServe(*listen, nil))
	}
	log.Fatal(http.ListenAndServeTLS(*listen, *cert, *key, nil))
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	path, inside := strings.CutPrefix(r.URL.Path, mount)
	if r.Header.Get("X-Vault-Token") != s.token {
		logical.RespondError(w, http.StatusForbidden, logical.ErrPermissionDenied)
		return
	}
	if !inside {
		logical.RespondError(w, http.StatusNotFound, errors.New("no handler for route \""+strings.TrimPrefix(r.URL.Path, "/v1/")+"\". route entry not found."))
		return
	}
	s.mutex.Lock()
	s.asked[strings.SplitN(path, "/", 2)[0]]++
	s.mutex.Unlock()
	request := &logical.Request{Path: path, Storage: s.storage, MountPoint: "transit/", ClientToken: s.token, Data: map[string]any{}}
	switch r.Method {
	case http.MethodGet:
		request.Operation = logical.ReadOperation
	case http.MethodDelete:
		request.Operation = logical.DeleteOperation
	default:
		request.Operation = logical.UpdateOperation
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		decoder.UseNumber()
		if err := decoder.Decode(&request.Data); err != nil && !errors.Is(err, io.EOF) {
			logical.RespondError(w, http.StatusBadRequest, err)
			return
		}
		// What is not there would be made: that is another capability than to use what is.
		if checked, exists, err := s.engine.HandleExistenceCheck(r.Context(), request); err != nil || (checked && !exists) {
			logical.RespondError(w, http.StatusForbidden, logical.ErrPermissionDenied)
			return
		}
	}
	response, err := s.engine.HandleRequest(r.Context(), request)
	if status, failure := logical.RespondErrorCommon(request, response, err); failure != nil || status >= 400 {
		logical.RespondError(w, status, failure)
		return
	}
	if response == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(logical.LogicalResponseToHTTPResponse(response))
}
