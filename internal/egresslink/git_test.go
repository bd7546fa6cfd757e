package egresslink_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
)

func TestPathsOfGitAreTold(t *testing.T) {
	t.Parallel()
	for path, is := range map[string]bool{
		"/acme/web.git/info/refs": true, "/acme/web/info/refs": true, "/acme/web/git-upload-pack": true, "/acme/web.git/git-receive-pack": true,
		"/acme/web.git/info/lfs/objects/batch": true, "/acme/web/info/lfs/locks": true, "/acme/web.git/HEAD": true,
		"/repos/acme/web/git/refs": false, "/api/v4/projects/1": false, "/": false, "/acme/web": false, "/info/refs-of": false, "/acme/git-upload-packs": false,
	} {
		assert.Equal(t, is, egresslink.GitPath(path), path)
	}
}
