#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Brings a machine to where the tests run: system packages, .venv, pinned Python packages. Called by the Makefile.
# Once a run has finished, later ones return at once, until the recipe (this file, pyproject.toml, constraints.txt)
# changes or a part goes missing.
#
#   scripts/setup.sh          .venv, which sees the system's GNU Radio, with the NumPy that this GNU Radio needs
#   scripts/setup.sh numpy2   .cache/numpy2, which does not see it, with NumPy 2; for `make test-numpy2`
#
#   PYTHON=/path/to/python3   try this interpreter first when looking for the one that has GNU Radio
#   OAC_SKIP_APT=1            leave the system's packages alone (GNU Radio is there already, built by hand or by conda)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
mkdir -p .cache
path_of_gnuradio=${PYTHONPATH-}
case ${1:-} in
    '')
        venv=$root/.venv venv_options=(--system-site-packages) constraints=constraints.txt extras=dev,pluto
        modules=gnuradio,numpy,torch,pytest,oac_blocks
        check='import gnuradio.gr, numpy, scipy, torch
assert numpy.__version__ < "2", f"GNU Radio from apt needs numpy < 2, and this is {numpy.__version__}"'
        ;;
    numpy2)
        venv=$root/.cache/numpy2 venv_options=() constraints=.cache/constraints-numpy2.txt extras=dev
        modules=numpy,torch,pytest,oac_blocks
        unset PYTHONPATH # what it names would come before the packages of this environment
        # The version that the tests ran with, in place of the one for apt's GNU Radio.
        sed 's/^numpy==.*/numpy==2.4.6/' constraints.txt >"$constraints.$$" && mv "$constraints.$$" "$constraints"
        check='import numpy, scipy, torch, importlib.util
assert numpy.__version__ > "2", f"the tests need NumPy 2, and this is {numpy.__version__}"
assert not importlib.util.find_spec("gnuradio"), "this environment must not see GNU Radio"'
        ;;
    *) printf 'setup: %s is no environment; there is numpy2, or none for .venv\n' "$1" >&2 && exit 2 ;;
esac
python=$venv/bin/python
log=$root/.cache/setup.log

# Companion's own Python needs scipy for the blocks: `oac-blocks register`.
required=(gnuradio gir1.2-gtk-3.0 gir1.2-pango-1.0 iproute2 libiio0 libiio-utils python3-scipy python3-venv xauth xvfb)
optional=(dataset-fashion-mnist chromium chromium-driver)

# Packages in the user's home would satisfy pip and be gone for the next user of the machine.
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf 'setup: %s\n' "$*"; }

fail() { # fail WHAT ADVICE
    printf '\nsetup failed: %s\n  what to do: %s\n' "$1" "$2" >&2
    exit 1
}

# The lock (9) is not handed on: a service that apt starts would keep it.
quietly() { "$@" >"$log" 2>&1 </dev/null 9<&-; }

step() { # step WHAT ADVICE COMMAND...
    local what=$1 advice=$2
    shift 2
    say "$what"
    quietly "$@" && return
    {
        printf '\nsetup failed: %s\n  command:' "$what"
        printf ' %q' "$@"
        printf '\n  last lines of %s:\n' "$log"
        tail -n 15 "$log" | sed 's/^/    /'
        printf '  what to do: %s\n' "$advice"
    } >&2
    exit 1
}

recipe_hash() { # the place belongs to it: a venv does not survive a move
    { printf '%s\n' "$root"; cat pyproject.toml constraints.txt scripts/setup.sh; } | sha256sum | cut -c1-16
}

missing_packages() { # missing_packages NAME... prints those that are not installed
    [[ -z ${OAC_SKIP_APT:-} ]] && command -v dpkg-query >/dev/null || return 0
    local installed name
    # shellcheck disable=SC2016  # dpkg's own variables, not the shell's
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for name in "$@"; do
        grep -qxF "$name installed" <<<"$installed" || printf '%s\n' "$name"
    done
}

ready() {
    [[ -e $stamp && -z $(missing_packages "${required[@]}") ]] || return 1
    # Looking the packages up is enough, and far quicker than importing them.
    "$python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, sys.argv[1].split(","))))' "$modules" 2>/dev/null
}

apt_get=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y -o DPkg::Lock::Timeout=300)

install_required_packages() {
    local missing by_hand as_root=()
    mapfile -t missing < <(missing_packages "${required[@]}")
    ((${#missing[@]})) || return 0
    by_hand="run as root: apt-get install ${required[*]}"
    if ((EUID != 0)); then
        as_root=(sudo)
        command -v sudo >/dev/null || fail "installing system packages takes root or sudo: ${missing[*]}" "$by_hand"
    fi
    step "looking for system packages" \
        "check the network connection and the apt sources, then run make again. Without sudo, $by_hand" \
        "${as_root[@]}" "${apt_get[@]}" update
    step "installing ${missing[*]} (a few minutes)" \
        "check the network connection; on Ubuntu, GNU Radio is in the component 'universe'. Otherwise $by_hand" \
        "${as_root[@]}" "${apt_get[@]}" install --no-install-recommends "${missing[@]}"
}

install_optional_packages() {
    local missing as_root=()
    mapfile -t missing < <(missing_packages "${optional[@]}")
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || as_root=(sudo -n) # not worth a password
    say "installing ${missing[*]}"
    { quietly "${as_root[@]}" "${apt_get[@]}" update &&
        quietly "${as_root[@]}" "${apt_get[@]}" install --no-install-recommends "${missing[@]}"; } ||
        say "could not be had: ${missing[*]}. Going on without; what needs it will say so."
}

find_interpreter() { # prints the interpreter that has GNU Radio; the first python3 on PATH is often another one
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} /usr/bin/python3 /usr/bin/python3.1[1-9] /usr/local/bin/python3 \
        "$(type -P python3 || true)"; do
        command -v "$candidate" >/dev/null || continue
        # A venv's own interpreter would make a venv that does not see the first one's packages.
        PYTHONPATH=$path_of_gnuradio "$candidate" -c 'import gnuradio.gr, sys
sys.exit("in a venv") if sys.prefix != sys.base_prefix else print(sys.executable)' 2>/dev/null && return
    done
    return 1
}

make_venv() { # make_venv INTERPRETER
    # The line that venv itself writes down tells interpreter, kind and place at once.
    local command=("$1" -m venv "${venv_options[@]}" "$venv")
    if grep -sqxF "command = ${command[*]}" "$venv/pyvenv.cfg" &&
        "$python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    rm -rf "$venv"
    step "making ${venv#"$root/"} with $1" "is there room on the disk? Otherwise: rm -rf $venv and run make again" \
        "${command[@]}"
}

install_python_packages() {
    local pip=("$python" -m pip install --constraint "$constraints")
    local advice="check the network connection and the room on the disk (df -h .), then run make again;
    if the lines above name a package that does not fit, rm -rf $venv first"
    # torch goes first: with it in place, nothing that follows asks for another build of it. The two others build our own
    # package below; setuptools would otherwise use the system's packaging, which is too old for it.
    step "installing torch (the largest download)" "$advice" "${pip[@]}" setuptools packaging torch
    step "installing torchvision" "$advice" "${pip[@]}" torchvision
    # Built with the pinned setuptools above instead of whatever a build environment of its own would fetch.
    step "installing the rest of the Python packages" "$advice" \
        "${pip[@]}" --no-build-isolation --editable ".[$extras]"
}

stamp=$venv/.setup-$(recipe_hash)
ready && exit

exec 9<pyproject.toml
flock -n 9 || { say "waiting for another set-up of this folder" && flock 9; }
ready && exit
rm -f "$venv"/.setup-*

install_required_packages
install_optional_packages
interpreter=$(find_interpreter) || fail "no python3 on this machine has GNU Radio (import gnuradio.gr)" \
    "install GNU Radio 3.10 (Debian, Ubuntu: apt-get install gnuradio), or name its interpreter: PYTHON=/path make setup"
make_venv "$interpreter"
install_python_packages
step "checking" "rm -rf $venv and run make again" "$python" -c "$check"
touch "$stamp"
say "done"
