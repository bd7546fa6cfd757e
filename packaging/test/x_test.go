package test

import (
	_ "aead.dev/minisign"
	_ "github.com/compose-spec/compose-go/v2/cli"
	_ "github.com/stretchr/testify/require"
	_ "helm.sh/helm/v3/pkg/chart/loader"
	_ "helm.sh/helm/v3/pkg/chartutil"
	_ "helm.sh/helm/v3/pkg/engine"
	_ "helm.sh/helm/v3/pkg/lint"
	_ "k8s.io/api/apps/v1"
	_ "sigs.k8s.io/yaml"
	_ "github.com/cavaliergopher/rpm"
)
