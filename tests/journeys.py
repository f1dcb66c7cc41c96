"""Walk through the code as a reader does: which files a run, a submission or a page enters, and in which order.

A walk follows the functions that its entries call, depth first, each function once, in the order in which the calls
are written. It follows values of a few classes, such as the job of a run: a call is followed if it passes such a
value or a part of one (`job.pk`), or if it is a method of an object that is one or is built from one. A function
may pass on the parts that it receives. A journey without classes follows all calls.

Methods are found through annotations, constructors, attributes and return types. Decorators, properties, Protocols,
and functions that are only passed as arguments are not followed.

A stay is a sequence of functions in one file, and a return is a stay in a file that was entered before.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple


class Journey(NamedTuple):
    """Where a walk starts and the classes that it follows, by the unique ends of their dotted names."""

    entries: tuple[str, ...]
    classes: tuple[str, ...] = ()


JOURNEYS = {
    "submission from the URL": Journey(("jobs.api.urls", "KeyAuthentication.authenticate", "SubmissionView.post")),
    "submission from accept.submit": Journey(
        ("accept.submit",), ("request.Submission", "validation.CheckedSubmission", "models.Job")
    ),
    "run": Journey(("attempt.execute",), ("models.Job",)),
    "webhook": Journey(("dispatcher.make_request",), ("claims.Attempt",)),
    "result page": Journey(("job_page.job",), ("access.AccountAccess", "models.Job")),
    "share page": Journey(("sharing.share",), ("models.Job",)),
}


@dataclass(frozen=True, eq=False)
class Module:
    """A Python file of the product."""

    name: str
    tree: ast.Module

    @cached_property
    def imports(self) -> dict[str, str]:
        """The dotted name behind each imported name, also of imports within functions."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return names

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """The functions, classes and assignments of the module by name."""
        found: dict[str, ast.AST] = {}
        for node in self.tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found[name] = node
                case ast.Assign(targets=[ast.Name(id=name)]):
                    found[name] = node
        return found


@dataclass(frozen=True)
class Symbol:
    """A definition in a module. `owner` is the class of a method."""

    module: Module
    name: str
    node: ast.AST
    owner: "Symbol | None" = None

    @property
    def key(self) -> str:
        return f"{self.module.name}.{self.name}"

    @property
    def methods(self) -> "dict[str, Symbol]":
        nodes = self.node.body if isinstance(self.node, ast.ClassDef) else []
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return {node.name: Symbol(self.module, f"{self.name}.{node.name}", node, self) for node in functions}

    @property
    def parameters(self) -> list[ast.arg]:
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return []
        return [*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs]

    @property
    def takes_receiver(self) -> bool:
        """Whether the first parameter is the object, or the class."""
        decorators = self.node.decorator_list if isinstance(self.node, ast.FunctionDef) else []
        return self.owner is not None and "staticmethod" not in map(dotted, decorators)


@dataclass(frozen=True)
class Type:
    """The static type of an expression; `symbol` is its class if the product defines it."""

    symbol: Symbol | None
    arguments: "tuple[Type, ...]" = ()

    def names(self, classes: Collection[str]) -> bool:
        """Return whether this is one of the classes, or a collection of them."""
        return bool(self.symbol and self.symbol.key in classes) or any(
            each.names(classes) for each in self.arguments
        )


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for the attributes of a name, an empty string for another expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute) if base := dotted(value):
            return f"{base}.{attribute}"
    return ""


def pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the target and the value of an assignment; those of `a, b = c, d` one by one."""
    match node.targets[0], node.value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            yield from zip(targets, values, strict=False)
        case target, value:
            yield target, value


class Code:
    """The modules of the product, and what the names in them refer to."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """`files` are the texts of the modules by their paths."""
        self.modules: dict[str, Module] = {}
        for path, text in files.items():
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self.modules[name] = Module(name, ast.parse(text))
        defined = [Symbol(m, name, node) for m in self.modules.values() for name, node in m.definitions.items()]
        self.symbols = {s.key: s for owner in defined for s in (owner, *owner.methods.values())}
        self._attributes: dict[tuple[str, str], Type | None] = {}

    def named(self, ending: str) -> str:
        """Return the dotted name of the only module or definition whose name ends so."""
        found = [name for name in (*self.modules, *self.symbols) if f".{name}".endswith(f".{ending}")]
        if len(found) != 1:
            raise LookupError(f"{ending} is ambiguous or missing: {found}")
        return found[0]

    def find(self, module: Module, name: str) -> Symbol | None:
        """Return the definition that a dotted name refers to in a module."""
        head, _, tail = name.partition(".")
        if head in module.definitions:
            symbol = self.symbols[f"{module.name}.{head}"]
            return self.method(symbol, tail) if tail else symbol
        imported = next((full for full in (name, head) if full in module.imports), None)
        if not name or imported is None:
            return None
        target = module.imports[imported] + name[len(imported) :]
        parts = target.split(".")
        for count in range(len(parts) - 1, 0, -1):
            owner = self.modules.get(".".join(parts[:count]))
            if owner:
                return self.find(owner, ".".join(parts[count:])) if owner is not module else None
        return None

    def lineage(self, symbol: Symbol) -> Iterator[Symbol]:
        """Yield a class and its base classes."""
        yield symbol
        for base in symbol.node.bases if isinstance(symbol.node, ast.ClassDef) else []:
            found = self.find(symbol.module, dotted(base.value if isinstance(base, ast.Subscript) else base))
            if found:
                yield from self.lineage(found)

    def method(self, symbol: Symbol, name: str) -> Symbol | None:
        return next((o.methods[name] for o in self.lineage(symbol) if name in o.methods), None)

    def annotated(self, module: Module, node: ast.AST | None) -> Type | None:
        """Return the type of an annotation; of a union, the first member that the product defines."""
        match node:
            case ast.Constant(value=str(text)):
                return self.annotated(module, ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, right=right):
                return self.annotated(module, left) or self.annotated(module, right)
            case ast.Subscript(value=value, slice=inner):
                arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                known = tuple(type_ for each in arguments if (type_ := self.annotated(module, each)))
                return replace(self.annotated(module, value) or Type(None), arguments=known)
            case ast.Name() | ast.Attribute():
                found = self.find(module, dotted(node))
                return Type(found) if found and isinstance(found.node, ast.ClassDef) else None
        return None

    def returned(self, symbol: Symbol) -> Type | None:
        """Return the type of a call of a function or class."""
        if isinstance(symbol.node, ast.ClassDef):
            return Type(symbol)
        return self.annotated(symbol.module, getattr(symbol.node, "returns", None))

    def attribute(self, symbol: Symbol, name: str) -> Type | None:
        """Return the type of an attribute, which is annotated in the class, a property, or assigned in a method."""
        if (symbol.key, name) not in self._attributes:
            self._attributes[symbol.key, name] = None
            found = (type_ for owner in self.lineage(symbol) for type_ in self._types_of_attribute(owner, name))
            self._attributes[symbol.key, name] = next(found, None)
        return self._attributes[symbol.key, name]

    def _types_of_attribute(self, owner: Symbol, name: str) -> Iterator[Type]:
        for node in ast.walk(owner.node):
            if isinstance(node, ast.AnnAssign) and dotted(node.target) in (name, f"self.{name}"):
                found = self.annotated(owner.module, node.annotation)
                yield from [found] if found else []
        if name in owner.methods and (found := self.returned(owner.methods[name])):
            yield found
        for method in owner.methods.values():
            body = Body(self, method)
            for node in ast.walk(method.node):
                for target, value in pairs(node) if isinstance(node, ast.Assign) else []:
                    if dotted(target) == f"self.{name}" and (found := body.type_of(value)):
                        yield found


class Body:
    """The body of a function: the types of its names, and which of its expressions carry a followed value."""

    def __init__(self, code: Code, symbol: Symbol, *, classes: Collection[str] = (), parts: Collection[str] = ()):
        self.code, self.symbol, self.module = code, symbol, symbol.module
        self.classes, self.parts = classes, {*parts}
        self.types = {each.arg: code.annotated(self.module, each.annotation) for each in symbol.parameters}
        if symbol.takes_receiver and symbol.parameters:
            self.types[symbol.parameters[0].arg] = Type(symbol.owner)

    def calls(self, node: ast.AST) -> Iterator[ast.Call]:
        """Yield the calls below a node in the order in which they are written; binds names on the way."""
        self._bind(node)
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name):
                yield from self.calls(node.func)
            yield node
            children = iter([*node.args, *node.keywords])
        for child in children:
            yield from self.calls(child)
        if isinstance(node, ast.Assign):
            self._bind_values(node)

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.For(target=ast.Name(id=name), iter=values):
                collection = self.type_of(values)
                self.types[name] = collection.arguments[-1] if collection and collection.arguments else None
            case ast.withitem(context_expr=manager, optional_vars=ast.Name(id=name)):
                self.types[name] = self.type_of(manager)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                self.types[name] = self.code.annotated(self.module, annotation)

    def _bind_values(self, node: ast.Assign) -> None:
        for target, value in pairs(node):
            if isinstance(target, ast.Name):
                self.parts |= {target.id} if self.carries(value) else set()
                self.types[target.id] = self.type_of(value)

    def type_of(self, node: ast.expr) -> Type | None:
        match node:
            case ast.Name(id=name) if name in self.types:
                return self.types[name]
            case ast.Call(func=called):
                symbol = self.target(called)
                return self.code.returned(symbol) if symbol else None
            case ast.Attribute(value=value, attr=attribute) if (owner := self.type_of(value)) and owner.symbol:
                return self.code.attribute(owner.symbol, attribute)
        found = self._global(node)
        if found and isinstance(found.node, ast.Assign):
            return Body(self.code, found).type_of(found.node.value)
        return Type(found) if found and isinstance(found.node, ast.ClassDef) else None

    def target(self, node: ast.expr) -> Symbol | None:
        """Return the function or class that a call of the expression calls, or None if it is unknown."""
        if isinstance(node, ast.Attribute) and (owner := self.type_of(node.value)) and owner.symbol:
            return self.code.method(owner.symbol, node.attr)
        found = self._global(node)
        return None if found is None or isinstance(found.node, ast.Assign) else found

    def _global(self, node: ast.expr) -> Symbol | None:
        is_local = dotted(node).partition(".")[0] in self.types
        return None if is_local else self.code.find(self.module, dotted(node))

    def carries(self, node: ast.expr) -> bool:
        """Return whether an expression is a followed value, a part of one, or a collection of them."""
        if isinstance(node, ast.Name) and node.id in self.parts:
            return True
        if (type_ := self.type_of(node)) and type_.names(self.classes):
            return True
        return isinstance(node, ast.Attribute | ast.Starred) and self.carries(node.value)

    def passed(self, call: ast.Call, called: Symbol) -> set[str]:
        """Return the parameters that receive a followed value or a part of one, `**` for an unknown parameter."""
        names = [each.arg for each in called.parameters[called.takes_receiver :]] + ["**"] * len(call.args)
        given = [*zip(names, call.args, strict=False), *((each.arg or "**", each.value) for each in call.keywords)]
        return {name for name, value in given if self.carries(value)}


class Walk:
    """A journey. `path` names the module of each function that is entered, `lines` show the calls as a tree."""

    def __init__(self, code: Code, journey: Journey) -> None:
        self.code = code
        self.classes = {code.named(name) for name in journey.classes}
        self.path: list[str] = []
        self.lines: list[str] = []
        self._entered: set[str] = set()
        for entry in map(code.named, journey.entries):
            if entry in code.modules:
                self.path.append(entry)
            else:
                self._enter(code.symbols[entry], set(), depth=0)
        self.stays = sum(now != before for before, now in zip([None, *self.path], self.path, strict=False))
        self.rooms = len({*self.path})
        self.returns = self.stays - self.rooms

    def _enter(self, symbol: Symbol, parts: set[str], *, depth: int) -> None:
        if symbol.key in self._entered:
            return
        self._entered.add(symbol.key)
        self.path.append(symbol.module.name)
        self.lines.append("  " * depth + symbol.key)
        body = Body(self.code, symbol, classes=self.classes, parts=parts)
        for statement in getattr(symbol.node, "body", []):
            for call in body.calls(statement):
                called = body.target(call.func)
                if called and isinstance(called.node, ast.ClassDef):
                    called = self.code.method(called, "__init__")
                if called is not None:
                    passed = body.passed(call, called)
                    if passed or not self.classes or self._holds(called.owner):
                        self._enter(called, passed, depth=depth + 1)

    def _holds(self, owner: Symbol | None) -> bool:
        """Return whether the objects of a class are followed values, or are built from one."""
        if owner is None or owner.key in self.classes:
            return owner is not None
        body = owner.node.body if isinstance(owner.node, ast.ClassDef) else []
        annotations = [node.annotation for node in body if isinstance(node, ast.AnnAssign)]
        built = self.code.method(owner, "__init__")
        annotations += [each.annotation for each in built.parameters if each.annotation] if built else []
        types = [self.code.annotated(owner.module, each) for each in annotations]
        return any(type_.names(self.classes) for type_ in types if type_)
