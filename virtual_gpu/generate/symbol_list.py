"""Reads the symbol lists (*.symbols) that say what a stand-in library exports.

    # comment
    @soname libcudart.so.13      SONAME of the library
    @node libcudart.so.13        version node of its symbols; absent: unversioned
    @refuse 801                  status that a function without a model returns
    @table docs/cuda_compat.md   page that lists what is modelled
    cudaArrayGetInfo             a function that returns the library's status type
    cudaGetErrorName const char* a function that returns something else
    cuptiEventGetAttribute =38   a function that refuses with a status of its own
    nvshmem_options object 64    a variable of that many bytes; all zero here
"""

import dataclasses


@dataclasses.dataclass
class SymbolList:
    soname: str = ""
    node: str = ""
    refuse: str = ""
    table: str = ""
    # name -> return type; "" is the library's status type
    types: dict = dataclasses.field(default_factory=dict)
    # name -> status, where that is not `refuse`
    statuses: dict = dataclasses.field(default_factory=dict)
    # name -> bytes, for variables
    objects: dict = dataclasses.field(default_factory=dict)

    @property
    def names(self):
        return set(self.types) | set(self.objects)


def read(path):
    result = SymbolList()
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, _, rest = line.partition(" ")
            if name.startswith("@"):
                if name[1:] not in ("soname", "node", "refuse", "table"):
                    raise SystemExit(f"{path}:{number}: {name}: unknown directive")
                setattr(result, name[1:], rest.strip())
            elif name in result.names:
                raise SystemExit(f"{path}:{number}: {name} is listed twice")
            elif rest.startswith("object "):
                result.objects[name] = int(rest.removeprefix("object "))
            elif rest.strip().startswith("="):
                result.types[name] = ""
                result.statuses[name] = rest.strip()[1:]
            else:
                result.types[name] = rest.strip()
    for field in ("soname", "refuse", "table"):
        if not getattr(result, field):
            raise SystemExit(f"{path}: a line '@{field} ...' is missing")
    return result
