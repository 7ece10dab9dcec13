#!/usr/bin/env bash
# Ends what up.sh has started here and keeps the data. The same as up.sh stop; up.sh destroy forgets the data too.
set -euo pipefail
exec "$(dirname "$0")/up.sh" stop
